//! From frames to observations: pure, with the time passed in.

pub mod frame;
