//! The client side of the command line: one request, or a few, to a running service.
//!
//! [`remote`] speaks HTTP, [`commands`] says what to ask and what of the answer to print, `show` makes
//! tables of it for a person. JSON is the service's body as it came, so that what a script reads here is
//! what the contract says of HTTP.

pub mod commands;
mod error;
pub mod remote;
mod show;

pub use self::commands::{Command, Printed, run};
pub use self::error::Error;
pub use self::remote::Remote;

#[cfg(test)]
mod tests;
