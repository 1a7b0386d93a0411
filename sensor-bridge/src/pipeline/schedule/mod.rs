//! Which stream may send: one budget for all, breaks first, and turns for the rest.
//!
//! The service admits ten events a second from everyone. One observation at a time in turn would let
//! no stream reach `consecutive` once a few are active: each turn is a *lease* instead, at full
//! spacing, until `consecutive + 1` highs in a row were delivered or 6 s passed; then the stream rests.
//! As many leases are out as the rate can serve, at least one. A source never keeps all of them
//! while another one waits, neither a configured source nor an event source.
//!
//! * [`bucket`]: the budget, and when nothing may be sent at all;
//! * [`turns`]: leases and who is next.

pub mod bucket;
pub mod turns;
