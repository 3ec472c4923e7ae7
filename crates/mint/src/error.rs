use lucarne_x509::pem::PemError;

/// Reasons why a key or a certificate could not be created or parsed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MintError {
    /// The cryptographic library failed during this operation.
    #[error("the cryptographic library failed: {0}")]
    Crypto(&'static str),
    /// The size of RSA keys is not supported.
    #[error("cannot generate RSA keys of {0} bits: 2048, 3072, 4096 and 8192 are possible")]
    RsaSize(u32),
    /// The signature algorithm does not fit the key.
    #[error("a {key:?} key cannot sign with {algorithm:?}")]
    Algorithm {
        /// Kind of the key.
        key: crate::KeyType,
        /// Requested algorithm.
        algorithm: crate::SignatureAlgorithm,
    },
    /// The PEM text is invalid.
    #[error("{0}")]
    Pem(String),
    /// The CA certificate is not usable for issuing.
    #[error("not a usable CA certificate: {0}")]
    Certificate(&'static str),
    /// The private key does not belong to the certificate.
    #[error("the private key does not belong to the CA certificate beside it")]
    Mismatch,
    /// The leaf certificate is not usable.
    #[error("not a usable certificate: {0}")]
    Leaf(&'static str),
    /// The CA has expired, so clients would refuse its certificates.
    #[error("the CA's certificate ended at {ended} (Unix time): create a new CA and replace it")]
    CaExpired {
        /// End of its validity, in seconds since 1970.
        ended: i64,
    },
    /// TLS cannot use the certificate or its key.
    #[cfg(feature = "store")]
    #[error("TLS cannot use the certificate: {0}")]
    Tls(#[from] rustls::Error),
}

impl From<PemError> for MintError {
    fn from(error: PemError) -> Self {
        MintError::Pem(error.to_string())
    }
}
