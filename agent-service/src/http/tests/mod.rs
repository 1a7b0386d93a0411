//! The operations, called without a socket (`operations`), and connections with one (`sockets`) or over
//! a pipe with a clock that the test moves (`timing`).

mod operations;
mod order;
mod routes;
mod sockets;
mod timing;
