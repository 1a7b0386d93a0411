//! The core on a real database: intake, writer, worker and a scripted runner, without HTTP.
//!
//! The clock is moved by hand. Nothing waits for a length of time: a test waits for an event, and
//! [`service::soon`] bounds how long. The modules are marked as tests for clippy, which takes helpers beside them for the program.

#[cfg(test)]
mod durability;
#[cfg(test)]
mod events;
#[cfg(test)]
mod model;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod released;
#[cfg(test)]
mod service;
#[cfg(test)]
mod stopping;
