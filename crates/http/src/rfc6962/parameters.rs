//! The parameters of a request. Each parameter may occur once, and each value has exactly one
//! spelling: `01` is not a number. Unknown parameters are ignored (RFC 6962, section 4).

use std::borrow::Cow;

use http::StatusCode;
use lucarne_tlog::Hash;
use percent_encoding::percent_decode_str;

use crate::error_response::ErrorResponse;

/// Maximum number of characters of a wrong value that an error shows.
const SHOWN: usize = 60;

/// The reasons why a parameter cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum ParameterError {
    #[error("the parameter {name} is missing")]
    Missing { name: &'static str },
    #[error("the parameter {name} is repeated: send it once")]
    Repeated { name: &'static str },
    #[error("{name} is {value:?}; expected {expected}")]
    Invalid {
        name: &'static str,
        /// The value, truncated.
        value: String,
        expected: &'static str,
    },
}

impl From<ParameterError> for ErrorResponse {
    fn from(error: ParameterError) -> Self {
        let code = match error {
            ParameterError::Missing { .. } => "missing_parameter",
            ParameterError::Repeated { .. } | ParameterError::Invalid { .. } => "bad_parameter",
        };
        ErrorResponse::read(StatusCode::BAD_REQUEST, code, error.to_string())
    }
}

/// The parameters in a query.
pub(super) struct Parameters<'q>(&'q str);

impl<'q> Parameters<'q> {
    pub(super) fn of(query: Option<&'q str>) -> Self {
        Parameters(query.unwrap_or_default())
    }

    /// Parses a size or an index: decimal digits, without a sign or leading zeros.
    pub(super) fn number(&self, name: &'static str) -> Result<u64, ParameterError> {
        let text = self.text(name)?;
        let is_plain = text == "0" || !text.starts_with('0');
        let digits = is_plain && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse::<u64>().ok().filter(|_| digits);
        let expected =
            "a decimal number below 2^64, without a sign, leading zeros or anything else";
        number.ok_or_else(|| wrong(name, &text, expected))
    }

    /// Parses a SHA-256 hash in base64, with padding. Most clients escape `+`, `/` and `=`; the
    /// escapes are decoded.
    pub(super) fn hash(&self, name: &'static str) -> Result<Hash, ParameterError> {
        let text = self.text(name)?;
        let expected = "the base64 of 32 bytes, with padding (in a URL, + is %2B)";
        Hash::from_base64(&text).ok_or_else(|| wrong(name, &text, expected))
    }

    /// Returns the value of a required parameter, which must occur once.
    fn text(&self, name: &'static str) -> Result<Cow<'q, str>, ParameterError> {
        let pairs = self.0.split('&');
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let mut values = pairs.filter(|(key, _)| *key == name);
        let (_, value) = values.next().ok_or(ParameterError::Missing { name })?;
        if values.next().is_some() {
            return Err(ParameterError::Repeated { name });
        }
        let decoded = percent_decode_str(value).decode_utf8();
        decoded.map_err(|_| wrong(name, value, "text"))
    }
}

fn wrong(name: &'static str, value: &str, expected: &'static str) -> ParameterError {
    ParameterError::Invalid {
        name,
        value: value.chars().take(SHOWN).collect(),
        expected,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_one_spelling() {
        let number = |query| Parameters::of(Some(query)).number("n").ok();
        assert_eq!(number("n=0"), Some(0));
        assert_eq!(number("x=1&n=7&unknown"), Some(7));
        assert_eq!(number("n=%37"), Some(7));
        assert_eq!(number("n=18446744073709551615"), Some(u64::MAX));
        for wrong in [
            "",
            "n",
            "n=",
            "m=1",
            "N=1",
            "n=-1",
            "n=+1",
            "n=%2B1",
            "n=01",
            "n=00",
            "n=1.0",
            "n=1e3",
            "n=0x10",
            "n= 1",
            "n=1%20",
            "n=1%0a",
            "n=1_000",
            "n=\u{661}",
            "n=%D9%A1",
            "n=%FF",
            "n=18446744073709551616",
            "n=99999999999999999999999999",
            "n=1&n=1",
            "n=1&n=2",
            "n=1;m=2",
            "n=null",
        ] {
            assert_eq!(number(wrong), None, "{wrong:?}");
        }
        assert!(Parameters::of(None).number("n").is_err());
    }

    #[test]
    fn hashes_are_base64_escaped_or_not() {
        let bytes: [u8; 32] = std::array::from_fn(|n| [0xfb, 0xff, 0xbf][n % 3]);
        let text = Hash(bytes).to_string();
        assert!(
            text.contains('+') && text.contains('/') && text.ends_with('='),
            "{text}"
        );
        let hash = |text: &str| {
            let query = format!("hash={text}&tree_size=1");
            Parameters::of(Some(&query)).hash("hash").ok()
        };
        assert_eq!(hash(&text), Some(Hash(bytes)));
        let escaped = text
            .replace('+', "%2B")
            .replace('/', "%2f")
            .replace('=', "%3D");
        assert_eq!(hash(&escaped), Some(Hash(bytes)));
        let url_safe = text.replace('+', "-").replace('/', "_");
        for wrong in [
            "",
            "AA==",
            &url_safe,
            text.trim_end_matches('='),
            &text[1..],
        ] {
            assert_eq!(hash(wrong), None, "{wrong}");
        }
    }
}
