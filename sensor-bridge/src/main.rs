//! The program; everything is in the library, so that tests link the same code.

fn main() -> std::process::ExitCode {
    sensor_bridge::main()
}
