use std::sync::Arc;

use crate::{
    Extension, KeyPair, KeyType, MintError, Oid, SignatureAlgorithm, Time, extension, oid,
};

/// Place and form of the poison in a precertificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// First of all extensions.
    First,
    /// Middle of the extensions.
    Middle,
    /// Last of all extensions, as with most CAs.
    Last,
    /// Last, but not marked critical, which is invalid.
    NonCritical,
    /// Last, but with a value other than NULL, which is invalid.
    NonNull,
    /// Twice, which is invalid.
    Twice,
}

impl Poison {
    pub(crate) fn insert(self, extensions: &mut Vec<Extension>) {
        let mut poison = extension::poison();
        match self {
            Poison::First => return extensions.insert(0, poison),
            Poison::Middle => return extensions.insert(extensions.len() / 2, poison),
            Poison::NonCritical => poison.critical = false,
            Poison::NonNull => poison.value = vec![1, 1, 0xff],
            Poison::Twice => extensions.push(poison.clone()),
            Poison::Last => (),
        }
        extensions.push(poison);
    }
}

/// Properties of a leaf to issue. Start from [`for_names`](Self::for_names).
#[derive(Clone, Debug)]
pub struct LeafOptions {
    /// DNS names and IP addresses. The first name of at most 64 bytes is also the CN.
    pub names: Vec<String>,
    /// Start of validity.
    pub not_before: Time,
    /// End of validity.
    pub not_after: Time,
    /// Key of the subject. Issuing is cheap with a shared key.
    pub key: Arc<KeyPair>,
    /// Poison of a precertificate; `None` for a final certificate.
    pub poison: Option<Poison>,
    /// Extended key usages; without any, the extension is omitted.
    pub eku: Vec<Oid>,
    /// Number of SCTs of realistic size that a final certificate embeds.
    pub scts: usize,
    /// Content octets of the serial number; `None` for 128 random bits.
    pub serial: Option<Vec<u8>>,
    /// Algorithm of the issuer's signature; `None` for the default of the issuer's key.
    pub algorithm: Option<SignatureAlgorithm>,
    /// Extensions after the usual extensions, and before a poison that comes last.
    pub extra_extensions: Vec<Extension>,
}

impl LeafOptions {
    /// Returns options of a server certificate for these names with a new P-256 key, valid for 90
    /// days from an hour ago.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn for_names<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
    ) -> Result<Self, MintError> {
        let key = Arc::new(KeyPair::generate(KeyType::EcdsaP256)?);
        Ok(Self::with_key(names, key))
    }

    /// Returns the options of [`for_names`](Self::for_names) with an existing key.
    pub fn with_key<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
        key: Arc<KeyPair>,
    ) -> Self {
        let not_before = Time::from_unix(Time::now().unix() - 3600);
        LeafOptions {
            names: names.into_iter().map(Into::into).collect(),
            not_before,
            not_after: not_before.plus_days(90),
            key,
            poison: None,
            eku: vec![oid::SERVER_AUTH, oid::CLIENT_AUTH],
            scts: 0,
            serial: None,
            algorithm: None,
            extra_extensions: Vec::new(),
        }
    }

    /// Converts the options to those of a precertificate, with the poison last.
    pub fn precertificate(mut self) -> Self {
        self.poison = Some(Poison::Last);
        self
    }
}
