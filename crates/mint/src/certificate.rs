use crate::{Der, Extension, KeyPair, Lengths, MintError, Name, SignatureAlgorithm, Time, random};

/// The version field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Absent, as version 1 is written.
    V1,
    /// Version 3.
    V3,
    /// This number, explicitly (2 is version 3).
    Other(u8),
}

/// A certificate before it is signed: every field of the TBSCertificate
/// (RFC 5280 4.1) and every way to get it wrong that tests ask for.
///
/// [`Authority::leaf_template`](crate::Authority::leaf_template) gives one to
/// start from; [`Authority::sign`](crate::Authority::sign) signs it as it
/// stands, with no check of anything.
#[derive(Clone, Debug)]
pub struct Template {
    /// Version.
    pub version: Version,
    /// Serial number: the content octets of the INTEGER, as they are, so that
    /// negative, zero, padded and over-long ones can be written.
    pub serial: Vec<u8>,
    /// Holds what the key really signs with.
    pub algorithm: SignatureAlgorithm,
    /// AlgorithmIdentifier claimed inside the TBS; `None`: the true one.
    pub inner_algorithm: Option<Vec<u8>>,
    /// AlgorithmIdentifier claimed beside the signature; `None`: the true one.
    pub outer_algorithm: Option<Vec<u8>>,
    /// Issuer.
    pub issuer: Name,
    /// Validity, from.
    pub not_before: Time,
    /// Validity, through.
    pub not_after: Time,
    /// Subject.
    pub subject: Name,
    /// SubjectPublicKeyInfo, in DER.
    pub spki: Vec<u8>,
    /// Extensions, in order. None: the field is left out.
    pub extensions: Vec<Extension>,
    /// The form of lengths of the TBSCertificate but for `issuer`, `subject`, `spki`, the
    /// algorithm and extension values, which are DER already, as is what surrounds it.
    pub lengths: Lengths,
}

impl Template {
    /// The TBSCertificate, in DER (or not quite).
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

    /// The certificate, signed by `key`, in DER.
    ///
    /// # Errors
    /// A key that cannot sign with [`algorithm`](Self::algorithm).
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

    /// The extension of this type, for a test to change.
    pub fn extension_mut(&mut self, oid: &crate::Oid) -> Option<&mut Extension> {
        self.extensions.iter_mut().find(|e| &e.oid == oid)
    }

    /// Takes out every extension of this type.
    pub fn remove_extension(&mut self, oid: &crate::Oid) {
        self.extensions.retain(|e| &e.oid != oid);
    }
}

/// A serial number of 128 random bits, positive and of fixed length: what RFC
/// 5280 (at most 20 octets) and the CA/Browser Forum (at least 64 bits from a
/// CSPRNG) ask for.
pub(crate) fn random_serial() -> Result<Vec<u8>, MintError> {
    let mut serial = [0; 17];
    random(&mut serial)?;
    serial[0] = 0x04; // never negative, never padded: 128 random bits follow
    Ok(serial.to_vec())
}
