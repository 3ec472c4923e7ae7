use base64_simd::STANDARD;

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
            .map(|der| crate::pem::encode("CERTIFICATE", der))
            .collect()
    }
}
