//! Cuts a byte stream into lines of bounded length.
//!
//! Lines are cut before anything is decoded, so that bytes which are no text
//! cost their own line only. A line over the limit is skipped to its newline
//! and reported once; at most the limit is ever kept. CR LF is accepted,
//! blank lines are no messages.

use bytes::Bytes;

/// What the stream came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One line without its end.
    Whole(Bytes),
    /// A line over the limit was skipped.
    Oversized,
}

/// The cutter and what it holds of a line that is not over yet.
#[derive(Debug)]
pub struct Splitter {
    limit: usize,
    held: Vec<u8>,
    skipping: bool,
}

impl Splitter {
    /// Cuts lines of at most `limit` bytes, without their line end.
    pub const fn new(limit: usize) -> Self {
        Self { limit, held: Vec::new(), skipping: false }
    }

    /// Starts in the middle of a line: what comes up to the next newline is skipped in silence.
    pub fn skip_to_next_line(&mut self) {
        self.held.clear();
        self.skipping = true;
    }

    /// Takes the next bytes of the stream and gives each line that ended in them.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Line)) {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            self.hold(head, &mut each);
            self.end(&mut each);
            bytes = rest.get(1..).unwrap_or_default();
        }
        self.hold(bytes, &mut each);
    }

    /// The stream ended: what is held is the last line, although no newline came.
    pub fn finish(&mut self, mut each: impl FnMut(Line)) {
        self.end(&mut each);
    }

    /// Forgets what is held: the stream started again.
    pub fn reset(&mut self) {
        self.held = Vec::new();
        self.skipping = false;
    }

    fn hold(&mut self, bytes: &[u8], each: &mut impl FnMut(Line)) {
        if self.skipping {
            return;
        }
        // One more than the limit may be the CR of a line end.
        if self.held.len() + bytes.len() > self.limit + 1 {
            self.skip_to_next_line();
            self.held.shrink_to(0);
            each(Line::Oversized);
            return;
        }
        self.held.extend_from_slice(bytes);
    }

    fn end(&mut self, each: &mut impl FnMut(Line)) {
        if self.skipping {
            self.skipping = false;
            return;
        }
        let line = self.held.strip_suffix(b"\r").unwrap_or(&self.held);
        if line.len() > self.limit {
            each(Line::Oversized);
        } else if !line.trim_ascii().is_empty() {
            each(Line::Whole(Bytes::copy_from_slice(line)));
        }
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_cut_at_newlines_whatever_the_line_end() {
        assert_eq!(cut(b"a\r\nb\n\n \nc", 10, 3), [whole("a"), whole("b"), whole("c")]);
    }

    #[test]
    fn a_line_over_the_limit_is_skipped_once_and_the_next_is_read() {
        let stream = b"123456\n12345\n12345\r\n123456\r\nx\n";
        let expected =
            [Line::Oversized, whole("12345"), whole("12345"), Line::Oversized, whole("x")];
        assert_eq!(cut(stream, 5, 1), expected);
        assert_eq!(cut(stream, 5, 100), expected);
    }

    #[test]
    fn a_stream_that_never_ends_its_line_is_held_up_to_the_limit() {
        let mut splitter = Splitter::new(8);
        for _ in 0..1000 {
            splitter.feed(b"xxxxxxxx", |_| {});
            assert!(splitter.held.capacity() <= 32, "{}", splitter.held.capacity());
        }
    }

    #[test]
    fn the_rest_of_a_line_that_began_before_us_is_no_message() {
        let mut splitter = Splitter::new(100);
        splitter.skip_to_next_line();
        let mut lines = Vec::new();
        splitter.feed(b"half}\n{}\n", |line| lines.push(line));
        assert_eq!(lines, [whole("{}")]);
    }

    proptest! {
        #[test]
        fn where_the_stream_is_cut_into_reads_changes_nothing(
            stream in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'x')], 0..60),
            step in 1_usize..20,
        ) {
            prop_assert_eq!(cut(&stream, 5, step), cut(&stream, 5, 1000));
        }
    }

    fn cut(stream: &[u8], limit: usize, step: usize) -> Vec<Line> {
        let mut splitter = Splitter::new(limit);
        let mut lines = Vec::new();
        for bytes in stream.chunks(step) {
            splitter.feed(bytes, |line| lines.push(line));
        }
        splitter.finish(|line| lines.push(line));
        lines
    }

    fn whole(text: &'static str) -> Line {
        Line::Whole(Bytes::from_static(text.as_bytes()))
    }
}
