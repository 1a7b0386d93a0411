//! Turns what inference workers say into sparse observations for agent-service.

pub mod delivery;
pub mod observation;
pub mod config;
pub mod decode;
pub mod metrics;
pub mod pipeline;
pub mod source;

/// Runs the program with the arguments of the process.
pub fn main() -> std::process::ExitCode {
    std::process::ExitCode::SUCCESS
}
