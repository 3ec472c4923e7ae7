//! A small public key infrastructure for tests, benchmarks and the demo.

mod ocsp;

use std::sync::{Arc, OnceLock};

use crate::{Authority, CaOptions, Chain, KeyPair, KeyType, LeafOptions, MintError, pem};

pub use ocsp::{OcspResponse, OcspStatus};

/// A root with three intermediates as in the WebPKI, and one key that all leaves share.
#[derive(Clone, Debug)]
pub struct Pki {
    /// RSA-2048 root.
    pub root: Authority,
    /// RSA-2048 intermediate.
    pub rsa: Authority,
    /// P-256 intermediate.
    pub p256: Authority,
    /// P-384 intermediate.
    pub p384: Authority,
    /// Key of all leaves of [`leaf`](Self::leaf) (P-256).
    pub leaf_key: Arc<KeyPair>,
}

impl Pki {
    /// Creates a new one. Takes the time of two RSA keys: see [`shared`](Self::shared).
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn new() -> Result<Self, MintError> {
        let root = Authority::root(&CaOptions::named(
            "Lucarne Test Root X1",
            KeyType::Rsa(2048),
        ))?;
        let below = |name, key| {
            root.intermediate(&CaOptions {
                path_length: Some(0),
                ..CaOptions::named(name, key)
            })
        };
        Ok(Pki {
            rsa: below("Lucarne Test R1", KeyType::Rsa(2048))?,
            p256: below("Lucarne Test E1", KeyType::EcdsaP256)?,
            p384: below("Lucarne Test E2", KeyType::EcdsaP384)?,
            leaf_key: Arc::new(KeyPair::generate(KeyType::EcdsaP256)?),
            root,
        })
    }

    /// Returns the one of this process, created on first use.
    ///
    /// # Panics
    /// If the cryptographic library fails.
    #[allow(clippy::expect_used)]
    pub fn shared() -> &'static Pki {
        static PKI: OnceLock<Pki> = OnceLock::new();
        PKI.get_or_init(|| Pki::new().expect("minting a test PKI"))
    }

    /// Returns options of a leaf for this name with the shared key.
    pub fn leaf(&self, name: &str) -> LeafOptions {
        LeafOptions::with_key([name, &format!("www.{name}")], self.leaf_key.clone())
    }

    /// Issues a certificate for `name` from `issuer`. Returns its chain without the root. From the
    /// RSA intermediate, its JSON has about 2.7 kB, which is typical.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn certificate(&self, issuer: &Authority, name: &str) -> Result<Chain, MintError> {
        Ok(issuer.chain(issuer.issue(&self.leaf(name))?))
    }

    /// Issues a precertificate for `name` from `issuer`. Returns its chain without the root, as CAs
    /// submit it to add-pre-chain.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn precertificate(&self, issuer: &Authority, name: &str) -> Result<Chain, MintError> {
        Ok(issuer.chain(issuer.issue(&self.leaf(name).precertificate())?))
    }

    /// Returns the accepted root in PEM, for the configuration of a log.
    pub fn roots_pem(&self) -> String {
        pem::encode("CERTIFICATE", self.root.cert_der())
    }
}
