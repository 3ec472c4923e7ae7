use std::sync::Arc;

use crate::{
    Extension, KeyPair, KeyType, MintError, Oid, SignatureAlgorithm, Time, extension, oid,
};

/// The place and the form of the poison in a precertificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poison {
    /// Before all other extensions.
    First,
    /// Among the others.
    Middle,
    /// After all others, as most CAs do.
    Last,
    /// Last, but not marked critical: wrong.
    NonCritical,
    /// Last, but with a value other than NULL: wrong.
    NonNull,
    /// Twice: wrong.
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

/// The properties of a leaf to be issued. Start from [`for_names`](Self::for_names) and change
/// what matters.
#[derive(Clone, Debug)]
pub struct LeafOptions {
    /// DNS names and IP addresses; the first DNS name is also the CN.
    pub names: Vec<String>,
    /// Validity, from.
    pub not_before: Time,
    /// Validity, through.
    pub not_after: Time,
    /// The subject's key. Shared keys make minting cheap.
    pub key: Arc<KeyPair>,
    /// `Some`: a precertificate.
    pub poison: Option<Poison>,
    /// Extended key usages; none: the extension is left out.
    pub eku: Vec<Oid>,
    /// The number of SCTs of realistic size that a final certificate embeds.
    pub scts: usize,
    /// The serial number's content octets; `None`: 128 random bits.
    pub serial: Option<Vec<u8>>,
    /// The algorithm by which the issuer signs; `None`: its key's default.
    pub algorithm: Option<SignatureAlgorithm>,
    /// Extensions after the usual ones (before a poison that comes last).
    pub extra_extensions: Vec<Extension>,
}

impl LeafOptions {
    /// A server certificate for these names with a new P-256 key, valid for 90
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

    /// The same with a key that exists.
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

    /// The same as a precertificate, poison last.
    pub fn precertificate(mut self) -> Self {
        self.poison = Some(Poison::Last);
        self
    }
}
