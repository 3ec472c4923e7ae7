//! Object identifiers.

use std::borrow::Cow;

use crate::Der;

/// An object identifier, as the content octets of its DER.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Oid(Cow<'static, [u8]>);

impl Oid {
    const fn fixed(content: &'static [u8]) -> Self {
        Oid(Cow::Borrowed(content))
    }

    /// From dotted decimals (`1.3.101.112`). `None` if it is not that.
    pub fn parse(dotted: &str) -> Option<Self> {
        let mut arcs = dotted.split('.').map(|arc| arc.parse::<u64>().ok());
        let (first, second) = (arcs.next()??, arcs.next()??);
        if first > 2 || (first < 2 && second >= 40) {
            return None;
        }
        let mut content = Vec::new();
        base128(&mut content, second.checked_add(first * 40)?);
        for arc in arcs {
            base128(&mut content, arc?);
        }
        Some(Oid(Cow::Owned(content)))
    }

    /// The content octets.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

fn base128(out: &mut Vec<u8>, value: u64) {
    let groups = (64 - (value | 1).leading_zeros()).div_ceil(7);
    for group in (0..groups).rev() {
        let more = if group > 0 { 0x80 } else { 0 };
        out.push((value >> (7 * group)) as u8 & 0x7f | more);
    }
}

/// An AlgorithmIdentifier of `oid` with the parameters that `parameters`
/// writes, in DER: also for algorithms that nobody should use.
pub fn algorithm(oid: &Oid, parameters: impl FnOnce(&mut Der)) -> Vec<u8> {
    Der::build(|der| {
        der.sequence(|der| {
            der.oid(oid);
            parameters(der);
        });
    })
}

macro_rules! oids {
    ($($(#[$doc:meta])* $name:ident = $dotted:literal: $($byte:literal)+;)*) => {
        $($(#[$doc])* #[doc = concat!("\n\n`", $dotted, "`")]
        pub const $name: Oid = Oid::fixed(&[$($byte),+]);)*

        #[cfg(test)]
        const ALL: &[(&str, Oid)] = &[$(($dotted, $name)),*];
    };
}

oids! {
    /// RSA keys (RFC 3279).
    RSA_ENCRYPTION = "1.2.840.113549.1.1.1": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 1;
    /// md2WithRSAEncryption.
    MD2_WITH_RSA = "1.2.840.113549.1.1.2": 0x2a 0x86 0x48 0x86 0xf7 0x0d 1 1 2;
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
    /// authorityInfoAccess.
    AUTHORITY_INFO_ACCESS = "1.3.6.1.5.5.7.1.1": 0x2b 6 1 5 5 7 1 1;
    /// OCSPSigning extended key usage.
    OCSP_SIGNING = "1.3.6.1.5.5.7.3.9": 0x2b 6 1 5 5 7 3 9;
    /// OCSP access method.
    OCSP = "1.3.6.1.5.5.7.48.1": 0x2b 6 1 5 5 7 48 1;
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_what_their_dots_say() {
        for (dotted, oid) in ALL {
            assert_eq!(Oid::parse(dotted).as_ref(), Some(oid), "{dotted}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for dotted in ["", "1", "3.1", "1.40", "1..2", "1.2.x", "1.2.-3"] {
            assert_eq!(Oid::parse(dotted), None, "{dotted}");
        }
    }
}
