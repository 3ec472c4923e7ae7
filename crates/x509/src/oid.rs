//! Object identifiers, stored as their DER content octets.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

/// An object identifier, stored as the content octets of its DER: `"1.3.6.1.5.5.7.1.24".parse()`.
///
/// # Examples
///
/// ```
/// use lucarne_x509::Oid;
///
/// let poison: Oid = "1.3.6.1.4.1.11129.2.4.3".parse()?;
/// assert_eq!(poison.as_bytes(), [0x2b, 6, 1, 4, 1, 0xd6, 0x79, 2, 4, 3]);
/// assert_eq!(poison.to_string(), "1.3.6.1.4.1.11129.2.4.3");
/// # Ok::<(), lucarne_x509::OidError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Oid(Cow<'static, [u8]>);

/// The error for a string that is not an object identifier in dotted notation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an object identifier such as 1.3.6.1.5.5.7.1.24")]
pub struct OidError(String);

impl Oid {
    /// Creates the identifier with these DER content octets (without tag and length).
    pub const fn from_static(content: &'static [u8]) -> Self {
        Self(Cow::Borrowed(content))
    }

    /// Returns the DER content octets, without tag and length.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl FromStr for Oid {
    type Err = OidError;

    fn from_str(text: &str) -> Result<Self, OidError> {
        parse_dotted(text).ok_or_else(|| OidError(text.to_owned()))
    }
}

fn parse_dotted(text: &str) -> Option<Oid> {
    let mut arcs = text.split('.').map(|arc| {
        let digits = !arc.is_empty() && arc.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| arc.parse::<u64>().ok()).flatten()
    });
    let (first, second) = (arcs.next()??, arcs.next()??);
    if first > 2 || (first < 2 && second > 39) {
        return None;
    }
    let mut content = Vec::new();
    push_base128(first.checked_mul(40)?.checked_add(second)?, &mut content);
    for arc in arcs {
        push_base128(arc?, &mut content);
    }
    Some(Oid(Cow::Owned(content)))
}

fn push_base128(value: u64, out: &mut Vec<u8>) {
    let groups = (64 - value.leading_zeros()).div_ceil(7).max(1);
    for group in (0..groups).rev() {
        let more = if group == 0 { 0 } else { 0x80 };
        out.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

impl fmt::Display for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_content(&self.0, f)
    }
}

impl fmt::Debug for Oid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_content(&self.0, f)
    }
}

/// Writes the DER content octets of an identifier in dotted notation. Arcs over 63 bits, and octets
/// that end in the middle of an arc, become `?`.
fn fmt_content(content: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut first = true;
    for group in content.split_inclusive(|byte| byte & 0x80 == 0) {
        let whole = group.last().is_some_and(|byte| byte & 0x80 == 0) && group.len() <= 9;
        let arc = group
            .iter()
            .fold(0u64, |arc, byte| arc << 7 | u64::from(byte & 0x7f));
        match (whole, first) {
            (false, _) => f.write_str(if first { "?" } else { ".?" })?,
            (true, true) => write!(f, "{}.{}", (arc / 40).min(2), arc - 40 * (arc / 40).min(2))?,
            (true, false) => write!(f, ".{arc}")?,
        }
        first = false;
    }
    Ok(())
}

/// Formats the content octets of an unchecked identifier in dotted notation.
pub fn display(content: &[u8]) -> String {
    Oid(Cow::Owned(content.to_vec())).to_string()
}

macro_rules! oids {
    ($($(#[$doc:meta])* $name:ident = $dotted:literal: $($byte:literal)+;)*) => {
        $($(#[$doc])* #[doc = concat!("\n\n`", $dotted, "`")]
        pub const $name: Oid = Oid::from_static(content::$name);)*

        /// The content octets of the same identifiers, for comparisons and patterns.
        pub mod content {
            $($(#[$doc])* #[doc = concat!("\n\n`", $dotted, "`")]
            pub const $name: &[u8] = &[$($byte),+];)*
        }

        #[cfg(test)]
        const ALL: &[(&str, Oid)] = &[$(($dotted, $name)),*];
    };
}

oids! {
    /// RSA keys (RFC 3279).
    RSA_ENCRYPTION = "1.2.840.113549.1.1.1": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 1;
    /// md2WithRSAEncryption.
    MD2_WITH_RSA = "1.2.840.113549.1.1.2": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 2;
    /// md4WithRSAEncryption.
    MD4_WITH_RSA = "1.2.840.113549.1.1.3": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 3;
    /// md5WithRSAEncryption.
    MD5_WITH_RSA = "1.2.840.113549.1.1.4": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 4;
    /// sha1WithRSAEncryption.
    SHA1_WITH_RSA = "1.2.840.113549.1.1.5": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 5;
    /// MGF1 (RFC 8017).
    MGF1 = "1.2.840.113549.1.1.8": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 8;
    /// RSASSA-PSS.
    RSA_PSS = "1.2.840.113549.1.1.10": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 10;
    /// sha256WithRSAEncryption.
    SHA256_WITH_RSA = "1.2.840.113549.1.1.11": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 11;
    /// sha384WithRSAEncryption.
    SHA384_WITH_RSA = "1.2.840.113549.1.1.12": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 12;
    /// sha512WithRSAEncryption.
    SHA512_WITH_RSA = "1.2.840.113549.1.1.13": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 13;
    /// MD5 with RSA, before PKCS #1 had identifiers of its own.
    OIW_MD5_WITH_RSA = "1.3.14.3.2.3": 0x2b 14 3 2 3;
    /// SHA-1 with RSA, before PKCS #1 had identifiers of its own.
    OIW_SHA1_WITH_RSA = "1.3.14.3.2.29": 0x2b 14 3 2 29;
    /// Elliptic curve keys (RFC 5480).
    EC_PUBLIC_KEY = "1.2.840.10045.2.1": 0x2a 0x86 0x48 0xce 0x3d 2 1;
    /// NIST P-256.
    P256 = "1.2.840.10045.3.1.7": 0x2a 0x86 0x48 0xce 0x3d 3 1 7;
    /// NIST P-384.
    P384 = "1.3.132.0.34": 0x2b 0x81 0x04 0 34;
    /// NIST P-521.
    P521 = "1.3.132.0.35": 0x2b 0x81 0x04 0 35;
    /// ecdsa-with-SHA1.
    ECDSA_WITH_SHA1 = "1.2.840.10045.4.1": 0x2a 0x86 0x48 0xce 0x3d 4 1;
    /// ecdsa-with-SHA256.
    ECDSA_WITH_SHA256 = "1.2.840.10045.4.3.2": 0x2a 0x86 0x48 0xce 0x3d 4 3 2;
    /// ecdsa-with-SHA384.
    ECDSA_WITH_SHA384 = "1.2.840.10045.4.3.3": 0x2a 0x86 0x48 0xce 0x3d 4 3 3;
    /// ecdsa-with-SHA512.
    ECDSA_WITH_SHA512 = "1.2.840.10045.4.3.4": 0x2a 0x86 0x48 0xce 0x3d 4 3 4;
    /// Ed25519, key and signature (RFC 8410).
    ED25519 = "1.3.101.112": 0x2b 0x65 0x70;
    /// SHA-1.
    SHA1 = "1.3.14.3.2.26": 0x2b 14 3 2 26;
    /// SHA-256.
    SHA256 = "2.16.840.1.101.3.4.2.1": 0x60 0x86 0x48 0x01 0x65 3 4 2 1;
    /// SHA-384.
    SHA384 = "2.16.840.1.101.3.4.2.2": 0x60 0x86 0x48 0x01 0x65 3 4 2 2;
    /// SHA-512.
    SHA512 = "2.16.840.1.101.3.4.2.3": 0x60 0x86 0x48 0x01 0x65 3 4 2 3;

    /// commonName.
    COMMON_NAME = "2.5.4.3": 0x55 4 3;
    /// countryName.
    COUNTRY = "2.5.4.6": 0x55 4 6;
    /// organizationName.
    ORGANIZATION = "2.5.4.10": 0x55 4 10;

    /// extensionRequest, in a certification request (RFC 2985 5.4.2).
    EXTENSION_REQUEST = "1.2.840.113549.1.9.14": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 9 14;

    /// subjectKeyIdentifier (RFC 5280 4.2.1.2).
    SUBJECT_KEY_ID = "2.5.29.14": 0x55 0x1d 14;
    /// keyUsage.
    KEY_USAGE = "2.5.29.15": 0x55 0x1d 15;
    /// subjectAltName.
    SUBJECT_ALT_NAME = "2.5.29.17": 0x55 0x1d 17;
    /// basicConstraints.
    BASIC_CONSTRAINTS = "2.5.29.19": 0x55 0x1d 19;
    /// nameConstraints.
    NAME_CONSTRAINTS = "2.5.29.30": 0x55 0x1d 30;
    /// cRLDistributionPoints.
    CRL_DISTRIBUTION_POINTS = "2.5.29.31": 0x55 0x1d 31;
    /// certificatePolicies.
    CERTIFICATE_POLICIES = "2.5.29.32": 0x55 0x1d 32;
    /// authorityKeyIdentifier.
    AUTHORITY_KEY_ID = "2.5.29.35": 0x55 0x1d 35;
    /// policyConstraints.
    POLICY_CONSTRAINTS = "2.5.29.36": 0x55 0x1d 36;
    /// extKeyUsage.
    EXTENDED_KEY_USAGE = "2.5.29.37": 0x55 0x1d 37;
    /// anyExtendedKeyUsage.
    ANY_EXTENDED_KEY_USAGE = "2.5.29.37.0": 0x55 0x1d 37 0;
    /// authorityInfoAccess.
    AUTHORITY_INFO_ACCESS = "1.3.6.1.5.5.7.1.1": 0x2b 6 1 5 5 7 1 1;
    /// TLS features that a certificate requires, such as must-staple (RFC 7633).
    TLS_FEATURE = "1.3.6.1.5.5.7.1.24": 0x2b 6 1 5 5 7 1 24;
    /// acmeIdentifier, in the response to a challenge (RFC 8737, section 6.1).
    ACME_IDENTIFIER = "1.3.6.1.5.5.7.1.31": 0x2b 6 1 5 5 7 1 31;
    /// OCSPSigning extended key usage.
    OCSP_SIGNING = "1.3.6.1.5.5.7.3.9": 0x2b 6 1 5 5 7 3 9;
    /// OCSP access method.
    OCSP = "1.3.6.1.5.5.7.48.1": 0x2b 6 1 5 5 7 48 1;
    /// id-pkix-ocsp-basic, the usual response (RFC 6960).
    OCSP_BASIC = "1.3.6.1.5.5.7.48.1.1": 0x2b 6 1 5 5 7 48 1 1;
    /// caIssuers access method.
    CA_ISSUERS = "1.3.6.1.5.5.7.48.2": 0x2b 6 1 5 5 7 48 2;
    /// serverAuth.
    SERVER_AUTH = "1.3.6.1.5.5.7.3.1": 0x2b 6 1 5 5 7 3 1;
    /// clientAuth.
    CLIENT_AUTH = "1.3.6.1.5.5.7.3.2": 0x2b 6 1 5 5 7 3 2;
    /// codeSigning.
    CODE_SIGNING = "1.3.6.1.5.5.7.3.3": 0x2b 6 1 5 5 7 3 3;
    /// Domain validated (CA/Browser Forum).
    DOMAIN_VALIDATED = "2.23.140.1.2.1": 0x67 0x81 0x0c 1 2 1;
    /// Embedded SCT list (RFC 6962 3.3).
    SCT_LIST = "1.3.6.1.4.1.11129.2.4.2": 0x2b 6 1 4 1 0xd6 0x79 2 4 2;
    /// Precertificate poison (RFC 6962 3.1).
    POISON = "1.3.6.1.4.1.11129.2.4.3": 0x2b 6 1 4 1 0xd6 0x79 2 4 3;
    /// Extended key usage of Precertificate Signing Certificates (RFC 6962 3.1).
    PRECERT_SIGNING = "1.3.6.1.4.1.11129.2.4.4": 0x2b 6 1 4 1 0xd6 0x79 2 4 4;
    /// SCT list in an OCSP response (RFC 6962 3.3).
    OCSP_SCT_LIST = "1.3.6.1.4.1.11129.2.4.5": 0x2b 6 1 4 1 0xd6 0x79 2 4 5;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_what_their_dots_say() {
        for (dotted, oid) in ALL {
            assert_eq!(dotted.parse::<Oid>().as_ref(), Ok(oid), "{dotted}");
        }
    }

    #[test]
    fn dotted_and_back() {
        for text in [
            "2.5.29.37",
            "1.3.6.1.4.1.11129.2.4.3",
            "0.0",
            "2.999.1",
            "1.39.0",
        ] {
            assert_eq!(text.parse::<Oid>().unwrap().to_string(), text);
        }
        for (content, dotted) in [
            (content::POISON, "1.3.6.1.4.1.11129.2.4.3"),
            (content::PRECERT_SIGNING, "1.3.6.1.4.1.11129.2.4.4"),
            (content::ANY_EXTENDED_KEY_USAGE, "2.5.29.37.0"),
            (content::SERVER_AUTH, "1.3.6.1.5.5.7.3.1"),
        ] {
            assert_eq!(display(content), dotted);
        }
    }

    #[test]
    fn refuses_what_is_not_one() {
        for text in [
            "",
            "1",
            "3.1",
            "1.40",
            "1.2.",
            "1..2",
            "1.+2",
            "1.2.x",
            "1.2.-3",
            "1.2.99999999999999999999",
        ] {
            assert!(text.parse::<Oid>().is_err(), "{text}");
        }
    }

    #[test]
    fn odd_octets_never_panic() {
        assert_eq!(display(&[]), "");
        assert_eq!(display(&[0x2b, 0x80]), "1.3.?");
        assert_eq!(display(&[0xff; 20]), "?");
    }
}
