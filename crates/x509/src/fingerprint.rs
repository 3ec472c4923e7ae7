//! Fingerprints of certificates.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;

/// SHA-256 of a certificate's DER, which is the name of an issuer in the static CT API.
///
/// # Examples
///
/// ```
/// use lucarne_x509::Fingerprint;
///
/// let fingerprint = Fingerprint::of(b"a certificate in DER");
/// assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
/// assert_eq!(fingerprint.to_string().len(), 64);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Returns the fingerprint of a certificate.
    pub fn of(der: &[u8]) -> Self {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest::digest(&digest::SHA256, der).as_ref());
        Self(hash)
    }
}

/// The error for a string that is not a SHA-256 fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a SHA-256 fingerprint: expected 64 hexadecimal digits, with or without colons")]
pub struct FingerprintError;

/// Parses hexadecimal digits in any case, with or without colons between bytes.
impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let colons = text.split(':').count() == 32 && text.split(':').all(|byte| byte.len() == 2);
        let digits: &str = if colons { &text.replace(':', "") } else { text };
        let mut hash = [0; 32];
        hex::decode_to_slice(digits, &mut hash).map_err(|_| FingerprintError)?;
        Ok(Self(hash))
    }
}

/// Formats lower-case hexadecimal digits, as in `issuer/<fingerprint>`.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&hex::encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_as_tools_print_them() {
        let fingerprint = Fingerprint::of(b"certificate");
        let plain = fingerprint.to_string();
        let bytes: Vec<_> = fingerprint.0.map(|byte| format!("{byte:02X}")).into();
        for text in [plain.clone(), plain.to_uppercase(), bytes.join(":")] {
            assert_eq!(text.parse(), Ok(fingerprint));
        }
        for text in [
            "",
            &plain[1..],
            &format!("{plain}00"),
            &plain.replace('a', "g"),
            &bytes.join(" "),
            &format!(":{plain}"),
        ] {
            assert_eq!(text.parse::<Fingerprint>(), Err(FingerprintError), "{text}");
        }
    }
}
