//! Turns what inference workers say into sparse observations for agent-service.
//!
//! ```text
//! source -> lane -> decode -> pipeline (pure) -> poster -> POST /events
//! ```
//!
//! [`poster`] owns the pipeline's state in one task; everything else sends it
//! messages. `ARCHITECTURE.md` has the map.

// The simulation is included by an example too, and names this crate there.
#[cfg(test)]
extern crate self as sensor_bridge;

mod cli;
pub mod config;
pub mod decode;
pub mod delivery;
pub mod metrics;
pub mod observation;
pub mod pipeline;
pub mod poster;
mod replay;
mod serve;
pub mod source;

pub use cli::main;
