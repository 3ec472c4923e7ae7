use lucarne_x509::pem::PemError;

/// The reasons why a key or certificate could not be made or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The cryptographic library refused; names what was attempted.
    #[error("the cryptographic library failed: {0}")]
    Crypto(&'static str),
    /// A key type that cannot be generated here.
    #[error("cannot generate RSA keys of {0} bits: 2048, 3072, 4096 and 8192 are possible")]
    RsaSize(u32),
    /// The signature algorithm does not fit the key.
    #[error("a {key:?} key cannot sign with {algorithm:?}")]
    Algorithm {
        /// The key asked to sign.
        key: crate::KeyType,
        /// The algorithm it was asked to use.
        algorithm: crate::SignatureAlgorithm,
    },
    /// PEM text that is not what it should be.
    #[error("{0}")]
    Pem(String),
    /// A CA certificate that this crate cannot issue from.
    #[error("not a usable CA certificate: {0}")]
    Certificate(&'static str),
    /// The private key and the certificate are not of one pair.
    #[error("the private key does not belong to the CA certificate beside it")]
    Mismatch,
    /// A leaf certificate that cannot be used.
    #[error("not a usable certificate: {0}")]
    Leaf(&'static str),
    /// A CA whose validity has ended: clients would refuse what it issues.
    #[error("the CA's certificate ended at {ended} (Unix time): make a new CA and replace it")]
    CaExpired {
        /// The end of its validity, in seconds since 1970.
        ended: i64,
    },
    /// TLS cannot use the certificate or its key.
    #[cfg(feature = "store")]
    #[error("TLS cannot use it: {0}")]
    Tls(#[from] rustls::Error),
}

impl From<PemError> for MintError {
    fn from(error: PemError) -> Self {
        MintError::Pem(error.to_string())
    }
}
