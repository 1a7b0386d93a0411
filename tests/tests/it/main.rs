//! Black-box tests of both programs: one named test for each sentence of the contract that can be seen
//! from outside. `tests/README.md` has the table.

#[cfg(test)]
mod architecture;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod card;
#[cfg(test)]
mod cli;
#[cfg(test)]
mod config_errors;
#[cfg(test)]
mod config_server;
#[cfg(test)]
mod docs;
#[cfg(test)]
mod event_tasks;
#[cfg(test)]
mod events;
#[cfg(test)]
mod examples;
#[cfg(test)]
mod http_basics;
#[cfg(test)]
mod http_bodies;
#[cfg(test)]
mod http_limits;
#[cfg(test)]
mod malformed;
#[cfg(test)]
mod message_send;
#[cfg(test)]
mod process_and_state;
#[cfg(test)]
mod queue;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod sdk;
#[cfg(test)]
mod stopping;
#[cfg(test)]
mod storage_faults;
#[cfg(test)]
mod tasks_list;
#[cfg(test)]
mod tls;
