//! Harness of the black-box tests: both programs as real processes, driven over real sockets.
//!
//! | module | what |
//! |---|---|
//! | [`home`] | a test's own directory: configuration, state, agent, logs |
//! | [`process`] | starting a program, waiting for it, signals, its output |
//! | [`agent`] | the scripted agent's effects and releases |
//! | [`config`] | an agent's configuration |
//! | [`client`] | HTTP calls, and the checks that every answer must pass |
//! | [`wire`] | hand-written bytes on a socket |
//! | [`events`] | observations |
//! | [`tls`] | a private certificate authority |
//! | [`wait`] | waiting for an event, with a deadline |
//! | [`skip`] | saying by name what a machine cannot test |
//!
//! Everything here fails by panicking: a harness that cannot go on is a failed test.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::indexing_slicing,
    reason = "the harness of tests: what fails here fails the test, in its words"
)]

pub mod agent;
pub mod client;
pub mod config;
pub mod events;
pub mod home;
pub mod process;
pub mod skip;
pub mod tls;
pub mod wait;
pub mod wire;
