use crate::{Der, Extension, KeyPair, Lengths, MintError, Name, SignatureAlgorithm, Time, random};

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
    pub fn extension_mut(&mut self, oid: &crate::Oid) -> Option<&mut Extension> {
        self.extensions.iter_mut().find(|e| &e.oid == oid)
    }

    /// Removes all extensions of this type.
    pub fn remove_extension(&mut self, oid: &crate::Oid) {
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
