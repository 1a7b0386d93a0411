//! A durable task queue for one agent: A2A 1.0 messages and sensor events in, artifacts out.

pub mod cli;
pub mod client;
pub mod config;
pub mod http;
pub mod intake;
pub mod refusal;
pub mod runner;
pub mod serve;
pub mod store;
mod waiters;
pub mod worker;

/// Runs the program with the arguments of the process.
pub fn main() -> std::process::ExitCode {
    cli::main()
}
