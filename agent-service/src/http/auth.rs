//! Who may call: a bearer token, compared in constant time, and no browser.
//!
//! Both checks come before the route is looked at, so that a caller without a token learns nothing of
//! what there is. The token itself is not kept, only its SHA-256: digests of one length are compared,
//! so that not even the token's length shows in the time.

use agent_wire::canonical::Digest;
use http::HeaderMap;
use http::header::{AUTHORIZATION, ORIGIN};
use subtle::ConstantTimeEq as _;

use super::error::Error;

/// The token that callers must have.
#[derive(Clone)]
pub struct Token(Digest);

impl Token {
    /// Takes the token; whether it is long enough was checked with the configuration.
    pub fn new(token: &str) -> Self {
        Self(Digest::of_bytes(token.as_bytes()))
    }

    fn is(&self, given: &[u8]) -> bool {
        let given = Digest::of_bytes(given);
        self.0.as_bytes().ct_eq(given.as_bytes()).into()
    }
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

/// Lets a request with exactly one `Authorization: Bearer <token>` pass; the scheme in any case.
///
/// # Errors
/// [`Error::Unauthenticated`] for everything else.
pub(super) fn authenticate(headers: &HeaderMap, token: &Token) -> Result<(), Error> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(Error::Unauthenticated);
    };
    let (scheme, given) =
        value.as_bytes().split_at_checked("Bearer ".len()).ok_or(Error::Unauthenticated)?;
    if scheme.eq_ignore_ascii_case(b"Bearer ") && token.is(given.trim_ascii()) {
        Ok(())
    } else {
        Err(Error::Unauthenticated)
    }
}

/// Refuses a request that has an `Origin` header, whatever its value: only browsers send one.
///
/// # Errors
/// [`Error::Origin`].
pub(super) fn refuse_origin(headers: &HeaderMap) -> Result<(), Error> {
    if headers.contains_key(ORIGIN) { Err(Error::Origin) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn authorized(values: &[&'static str]) -> bool {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_static(value));
        }
        authenticate(&headers, &Token::new("0123456789abcdef")).is_ok()
    }

    #[test]
    fn only_the_very_token_passes() {
        assert!(authorized(&["Bearer 0123456789abcdef"]));
        assert!(authorized(&["bearer  0123456789abcdef "]));
        for values in [
            &[][..],
            &["0123456789abcdef"],
            &["Basic 0123456789abcdef"],
            &["Bearer"],
            &["Bearer "],
            &["Bearer 0123456789abcde"],
            &["Bearer 0123456789abcdefg"],
            &["Bearer 0123456789ABCDEF"],
            &["Bearer0123456789abcdef"],
            &["Bearer 0123456789abcdef", "Bearer 0123456789abcdef"],
        ] {
            assert!(!authorized(values), "{values:?}");
        }
    }
}
