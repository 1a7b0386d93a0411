//! JSON compared as values: one spelling for all that mean the same, and its SHA-256.
//!
//! Members are sorted by their UTF-8 bytes, there is no white space, and a number has one spelling:
//! `1`, `1.0` and `1e0` are one value, as are `0.90` and `0.9`. Numbers are what `serde_json` makes of
//! them (64 bit integers, else 64 bit floats), so that two that differ only beyond that are equal.
//!
//! The digests are stored (receipts, the binding of a state directory to its configuration): a change
//! of this spelling is a change of the stored format.

use std::fmt;

use serde_json::{Number, Value};
use sha2::{Digest as _, Sha256};

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The SHA-256 of bytes.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The SHA-256 of a value's canonical spelling.
    pub fn of(value: &Value) -> Self {
        Self::of_bytes(to_string(value).as_bytes())
    }

    /// The 32 bytes, as they are stored.
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 small hex digits.
    pub fn to_hex(self) -> String {
        self.to_string()
    }

    /// Reads 64 hex digits; `None` when the text is anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        let bytes = hex_decode(text)?;
        bytes.try_into().ok().map(Self)
    }
}

impl From<[u8; 32]> for Digest {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex_encode(&self.0))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({self})")
    }
}

/// The canonical spelling of a value.
pub fn to_string(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

/// Small hex digits, two a byte.
pub(crate) fn hex_encode(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads pairs of hex digits of either case.
pub(crate) fn hex_decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut digits = text.chars().map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()));
    while let Some(high) = digits.next() {
        bytes.push((high? << 4) | digits.next()??);
    }
    Some(bytes)
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(members) => {
            out.push('{');
            let mut sorted: Vec<_> = members.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| *name);
            for (index, (name, member)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                write_value(out, member);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    // Value's own printer escapes one way only, and its text is stored: do not change it.
    out.push_str(&Value::from(text).to_string());
}

fn write_number(out: &mut String, number: &Number) {
    let text = if number.is_f64() {
        let float = number.as_f64().unwrap_or_default();
        // Every float prints as its shortest exact decimal; a whole one has no fraction, so that it
        // meets the integer of the same value. Minus zero is zero.
        if float == 0.0 { "0".to_owned() } else { float.to_string() }
    } else {
        number.to_string()
    };
    out.push_str(&text);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn canonical(json: &str) -> String {
        to_string(&serde_json::from_str(json).unwrap())
    }

    #[test]
    fn equal_values_have_one_spelling() {
        let cases = [
            (r#"{"b":1,"a":2}"#, "{ \"a\" : 2.0, \"b\":1e0 }", r#"{"a":2,"b":1}"#),
            ("0.90", "9e-1", "0.9"),
            ("-0.0", "0", "0"),
            ("100", "1E2", "100"),
            ("18446744073709551615", "18446744073709551615", "18446744073709551615"),
            ("1e21", "1000000000000000000000", "1000000000000000000000"),
            (r#""\u0061\/""#, r#""a/""#, r#""a/""#),
            ("[ ]", "[]", "[]"),
            ("0.1234567890123456780", "0.123456789012345678", "0.12345678901234568"),
        ];
        for (left, right, expected) in cases {
            assert_eq!(canonical(left), expected, "{left}");
            assert_eq!(canonical(right), expected, "{right}");
        }
    }

    #[test]
    fn different_values_have_different_digests() {
        let different =
            ["1", "\"1\"", "true", "null", "[]", "{}", "[1]", "[[1]]", "{\"a\":null}", "0.1", "-1"];
        let digests: std::collections::BTreeSet<_> =
            different.iter().map(|json| Digest::of(&serde_json::from_str(json).unwrap())).collect();
        assert_eq!(digests.len(), different.len());
    }

    #[test]
    fn a_digest_is_the_sha_256_in_hex() {
        let digest = Digest::of_bytes(b"abc");
        let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(digest.to_hex(), hex);
        assert_eq!(Digest::from_hex(hex), Some(digest));
        assert_eq!(Digest::from_hex("ba7"), None);
        assert_eq!(Digest::from_hex(hex.trim_start_matches("ba")), None);
    }

    proptest! {
        #[test]
        fn the_spelling_reads_back_as_the_same_value(value in crate::a2a::testing::any_json()) {
            let once = to_string(&value);
            let again: Value = serde_json::from_str(&once).unwrap();
            prop_assert_eq!(to_string(&again), once);
        }
    }
}
