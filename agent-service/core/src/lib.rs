//! The rules of agent-service: what is right, without a clock, a disk or a socket.
//!
//! Every function takes the time it judges by and returns a decision; nothing here reads a clock,
//! draws a number, locks, logs or awaits. The manifest has neither tokio nor sqlx, and the nested
//! `.clippy.toml` bans the rest. Refusals are values with a reason; errors are for callers that broke
//! a promise.
//!
//! - [`task`]: the phases of a task, and what a restart makes of them.
//! - [`queue`]: who may come in, and who has to go for it.
//! - [`receipt`]: what a submission ID that was seen before means.
//! - [`trigger`]: the steps from an observation to a task.
//! - [`prompt`]: how an observation reaches an agent.
//! - [`child`]: the protocol with one agent process.
//! - [`page`]: what fits on a page of tasks.

pub mod child;
pub mod page;
pub mod prompt;
pub mod queue;
pub mod receipt;
pub mod task;
pub mod trigger;
