//! What the bridge promises, from outside of its modules.

// `cfg(test)` tells clippy that helpers are tests, too.
#[cfg(test)]
mod contract;
#[cfg(test)]
mod poster;
#[cfg(test)]
mod program;
#[cfg(test)]
mod service;
#[cfg(test)]
mod support;
