//! The program under test, built fresh with the tests that use it.

fn main() -> std::process::ExitCode {
    sensor_bridge::main()
}
