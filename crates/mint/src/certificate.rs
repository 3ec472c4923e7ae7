//! Certificates whose fields are all accessible, with the names in them, their chains, and
//! certification requests.

use base64_simd::STANDARD;

use crate::der::tag;
use crate::{
    Der, Extension, KeyPair, Lengths, MintError, Oid, SignatureAlgorithm, Time, extension, oid,
    pem, random,
};

/// Version field of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Absent, which means version 1.
    V1,
    /// Version 3.
    V3,
    /// An explicit number (2 is version 3).
    Other(u8),
}

/// An unsigned certificate: all fields of the TBSCertificate (RFC 5280, section 4.1), including
/// invalid values for tests.
///
/// [`Authority::leaf_template`](crate::Authority::leaf_template) returns a template to start from.
/// [`Authority::sign`](crate::Authority::sign) signs it unchanged and unchecked.
#[derive(Clone, Debug)]
pub struct Template {
    /// Version field: v3, unless a test needs another version.
    pub version: Version,
    /// Content octets of the serial number's INTEGER, written unchanged. So negative, zero, padded
    /// and over-long numbers are possible.
    pub serial: Vec<u8>,
    /// Algorithm of the actual signature.
    pub algorithm: SignatureAlgorithm,
    /// AlgorithmIdentifier inside the TBS; `None` for that of [`algorithm`](Self::algorithm).
    pub inner_algorithm: Option<Vec<u8>>,
    /// AlgorithmIdentifier beside the signature; `None` for that of [`algorithm`](Self::algorithm).
    pub outer_algorithm: Option<Vec<u8>>,
    /// Name of the issuer.
    pub issuer: Name,
    /// Start of the validity period.
    pub not_before: Time,
    /// End of the validity period.
    pub not_after: Time,
    /// Name of the subject.
    pub subject: Name,
    /// SubjectPublicKeyInfo in DER.
    pub spki: Vec<u8>,
    /// Extensions in order; without any, the field is omitted.
    pub extensions: Vec<Extension>,
    /// Encoding of lengths in the TBSCertificate. Does not apply to `issuer`, `subject`, `spki`,
    /// the algorithm and extension values, which are DER already, nor to the outer structure.
    pub lengths: Lengths,
}

impl Template {
    /// Encodes the TBSCertificate. The result is valid DER unless a field or
    /// [`lengths`](Self::lengths) is unusual.
    pub fn tbs(&self) -> Vec<u8> {
        let mut der = Der::with_lengths(self.lengths);
        self.write_tbs(&mut der);
        der.into_bytes()
    }

    fn write_tbs(&self, der: &mut Der) {
        der.sequence(|der| {
            match self.version {
                Version::V1 => (),
                Version::V3 => der.context(0, |der| der.integer(2)),
                Version::Other(number) => der.context(0, |der| der.integer(number)),
            }
            der.integer_bytes(&self.serial);
            self.write_algorithm(der, self.inner_algorithm.as_deref());
            der.raw(self.issuer.as_der());
            der.sequence(|der| {
                self.not_before.write(der);
                self.not_after.write(der);
            });
            der.raw(self.subject.as_der());
            der.raw(&self.spki);
            if !self.extensions.is_empty() {
                der.context(3, |der| {
                    der.sequence(|der| self.extensions.iter().for_each(|e| e.write(der)));
                });
            }
        });
    }

    fn write_algorithm(&self, der: &mut Der, claimed: Option<&[u8]>) {
        match claimed {
            Some(identifier) => der.raw(identifier),
            None => der.raw(&self.algorithm.identifier()),
        }
    }

    /// Signs the certificate with `key` and returns its DER.
    ///
    /// # Errors
    /// If the key cannot sign with [`algorithm`](Self::algorithm).
    pub fn sign(&self, key: &KeyPair) -> Result<Vec<u8>, MintError> {
        let tbs = self.tbs();
        let signature = key.sign(self.algorithm, &tbs)?;
        let mut der = Der::with_lengths(Lengths::Minimal);
        der.sequence(|der| {
            der.raw(&tbs);
            self.write_algorithm(der, self.outer_algorithm.as_deref());
            der.bit_string(&signature);
        });
        Ok(der.into_bytes())
    }

    /// Returns the extension of this type, for modification by a test.
    pub fn extension_mut(&mut self, oid: &Oid) -> Option<&mut Extension> {
        self.extensions.iter_mut().find(|e| &e.oid == oid)
    }

    /// Removes all extensions of this type.
    pub fn remove_extension(&mut self, oid: &Oid) {
        self.extensions.retain(|e| &e.oid != oid);
    }
}

/// Returns a positive serial number of 128 random bits and fixed length. RFC 5280 requires at most
/// 20 octets, the CA/Browser Forum at least 64 bits from a CSPRNG.
pub(crate) fn random_serial() -> Result<Vec<u8>, MintError> {
    let mut serial = [0; 17];
    random(&mut serial)?;
    serial[0] = 0x04; // never negative, never padded: 128 random bits follow
    Ok(serial.to_vec())
}

/// A distinguished name, stored in DER.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Vec<u8>);

impl Name {
    /// Returns the empty name.
    pub fn empty() -> Self {
        Name(Der::build(|der| der.sequence(|_| ())))
    }

    /// Returns a name with a CN only, as UTF8String.
    pub fn common_name(name: &str) -> Self {
        Self::of(&[(&oid::COMMON_NAME, tag::UTF8_STRING, name)])
    }

    /// Returns the name of a leaf. The CN is the first of `names` with at most 64 bytes. The name
    /// is empty if all names are longer.
    pub(crate) fn of_leaf(names: &[String]) -> Self {
        let short = names.iter().find(|name| name.len() <= 64);
        short.map_or_else(Self::empty, |name| Self::common_name(name))
    }

    /// Returns a CA's name: C, O and CN.
    pub fn of_ca(country: &str, organization: &str, name: &str) -> Self {
        Self::of(&[
            (&oid::COUNTRY, tag::PRINTABLE_STRING, country),
            (&oid::ORGANIZATION, tag::UTF8_STRING, organization),
            (&oid::COMMON_NAME, tag::UTF8_STRING, name),
        ])
    }

    /// Returns a name with these attributes (type, string tag, value), one per RDN.
    pub fn of(attributes: &[(&Oid, u8, &str)]) -> Self {
        Name(Der::build(|der| {
            der.sequence(|der| {
                for (kind, string, value) in attributes {
                    der.set(|der| {
                        der.sequence(|der| {
                            der.oid(kind);
                            der.put(*string, value.as_bytes());
                        });
                    });
                }
            });
        }))
    }

    /// Creates a name from its DER in a certificate, including tag and length.
    pub fn from_der(der: &[u8]) -> Self {
        Name(der.to_vec())
    }

    /// Returns the name's DER.
    pub fn as_der(&self) -> &[u8] {
        &self.0
    }
}

/// A certificate chain in the order of a submission: leaf first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain(Vec<Vec<u8>>);

impl Chain {
    /// Creates a chain from certificates in DER, leaf first.
    pub fn new(certificates: Vec<Vec<u8>>) -> Self {
        Chain(certificates)
    }

    /// Returns the certificates in DER, leaf first.
    pub fn certificates(&self) -> &[Vec<u8>] {
        &self.0
    }

    /// Converts the chain into its certificates in DER, for example to reorder them.
    pub fn into_certificates(self) -> Vec<Vec<u8>> {
        self.0
    }

    /// Appends a certificate, for example the root.
    pub fn with(mut self, certificate: &[u8]) -> Self {
        self.0.push(certificate.to_vec());
        self
    }

    /// Returns the body of `add-chain` and `add-pre-chain` (RFC 6962, section 4.1).
    pub fn to_json(&self) -> String {
        let size: usize = self.0.iter().map(|der| der.len() * 4 / 3 + 8).sum();
        let mut body = String::with_capacity(size + 16);
        body.push_str("{\"chain\":[");
        for (i, der) in self.0.iter().enumerate() {
            body.push_str(if i == 0 { "\"" } else { ",\"" });
            STANDARD.encode_append(der, &mut body);
            body.push('"');
        }
        body.push_str("]}");
        body
    }

    /// Returns the chain as concatenated PEM.
    pub fn to_pem(&self) -> String {
        self.0
            .iter()
            .map(|der| pem::encode("CERTIFICATE", der))
            .collect()
    }
}

/// Creates a certification request (PKCS #10, RFC 2986) in DER for `names` (DNS names and IP
/// addresses), signed by `key`. The names are in a subjectAltName and the subject is empty, as ACME
/// servers and modern CAs require.
///
/// # Errors
/// Only if the cryptographic library fails.
pub fn certification_request<S: AsRef<str>>(
    key: &KeyPair,
    names: &[S],
) -> Result<Vec<u8>, MintError> {
    let names = extension::subject_alt_name(names);
    let info = Der::build(|der| {
        der.sequence(|der| {
            der.integer(0);
            der.raw(Name::empty().as_der());
            der.raw(key.spki());
            der.context(0, |der| {
                der.sequence(|der| {
                    der.oid(&oid::EXTENSION_REQUEST);
                    der.set(|der| der.sequence(|der| names.write(der)));
                });
            });
        });
    });
    let algorithm = key.default_algorithm();
    let signature = key.sign(algorithm, &info)?;
    Ok(Der::build(|der| {
        der.sequence(|der| {
            der.raw(&info);
            der.raw(&algorithm.identifier());
            der.bit_string(&signature);
        });
    }))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::{Command, Stdio};

    use super::*;
    use crate::KeyType;

    /// OpenSSL parses the request, verifies its signature and prints its names.
    #[test]
    fn openssl_agrees() {
        for kind in [KeyType::EcdsaP256, KeyType::EcdsaP384, KeyType::Rsa(2048)] {
            let key = KeyPair::generate(kind).unwrap();
            let request = certification_request(&key, &["a.example.test", "127.0.0.7"]).unwrap();
            let mut openssl = Command::new("openssl")
                .args(["req", "-inform", "DER", "-verify", "-noout", "-text"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("openssl, which Debian's ca-certificates brings along");
            openssl.stdin.take().unwrap().write_all(&request).unwrap();
            let output = openssl.wait_with_output().unwrap();
            let text = [output.stdout, output.stderr].concat();
            let text = String::from_utf8_lossy(&text);
            assert!(output.status.success(), "{text}");
            assert!(text.contains("verify OK"), "{text}");
            let names = "DNS:a.example.test, IP Address:127.0.0.7";
            assert!(text.contains(names), "{text}");
        }
    }
}
