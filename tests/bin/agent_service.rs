//! The program under test, built fresh with the tests that use it.

fn main() -> std::process::ExitCode {
    agent_service::main()
}
