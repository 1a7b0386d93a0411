//! Lines out of a byte stream, with a bound on what is held.
//!
//! Bytes are split at newlines first and decoded later, so that one bad byte costs its line only.

/// A line, without its newline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// All of it.
    Whole(Vec<u8>),
    /// More than the limit came without a newline; what follows is of no use.
    TooLong,
}

/// Cuts a stream into lines.
#[derive(Debug)]
pub struct Lines {
    limit: usize,
    pub(super) held: Vec<u8>,
    broken: bool,
}

impl Lines {
    /// Lines of at most `limit` bytes, the newline not counted.
    pub fn new(limit: usize) -> Self {
        Self { limit, held: Vec::new(), broken: false }
    }

    /// Takes bytes, and returns the lines that they complete.
    ///
    /// Holds at most `limit` bytes between calls. After [`Line::TooLong`] nothing comes any more.
    pub fn push(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while !self.broken {
            let end = bytes.iter().position(|byte| *byte == b'\n');
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            if self.held.len().saturating_add(part.len()) > self.limit {
                self.broken = true;
                self.held = Vec::new();
                lines.push(Line::TooLong);
                break;
            }
            self.held.extend_from_slice(part);
            let Some((_newline, rest)) = rest.split_first() else { break };
            lines.push(Line::Whole(std::mem::take(&mut self.held)));
            bytes = rest;
        }
        lines
    }

    /// The stream has ended: the line that has no newline, if any.
    pub fn finish(&mut self) -> Option<Line> {
        (!self.held.is_empty()).then(|| Line::Whole(std::mem::take(&mut self.held)))
    }
}
