//! Black-box tests of both programs: one named test for each sentence of the contract that can be seen
//! from outside. `tests/README.md` has the table.

#[cfg(test)]
mod process_and_state;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod stopping;
