//! Black-box tests of both programs.
