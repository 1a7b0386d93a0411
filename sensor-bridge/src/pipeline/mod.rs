//! From frames to observations: pure, with the time passed in.
//!
//! ```text
//! Message -> derive -> smooth -> stream (two slots) -> schedule -> Outgoing -> Reply
//! ```
//!
//! Nothing here reads a clock, draws a number, spawns or waits: `now` is the wall clock, `uptime` the
//! monotonic time since some fixed moment of the process. [`Sampler`] is the whole machine; the
//! shells call its few methods and do what it says.
//!
//! | module | what |
//! |---|---|
//! | [`frame`] | what a decoder says |
//! | [`route`] | what an operator wants, checked |
//! | [`derive`](mod@derive) | messages to one observation per route, event source and frame |
//! | [`stream`] | the two slots of a stream: what is due, and what was left out |
//! | [`window`] | a summary of what was left out |
//! | [`schedule`] | which stream may send: budget, breaks first, leases |
//! | [`sampler`] | all of it as one machine |
//! | [`count`] | counters and the closed list of reasons |

pub mod count;
pub mod derive;
pub mod frame;
mod redact;
pub mod route;
pub mod sampler;
pub mod schedule;
#[cfg(test)]
mod simulate;
mod smooth;
pub mod stream;
pub mod window;

pub use count::{Counters, Reason};
pub use derive::{Derived, Deriver, Refusal, StreamId};
pub use route::{Expect, Route, RouteError, RouteId, RouteSpec, Routes};
pub use sampler::{Outgoing, Sampler, Settings, Snapshot};
