//! Certificates as CAs of the WebPKI issue them, including unusual ones, for tests and load tests.
//! The certificates contain URLs of revocation services at which no server responds. Certificates
//! for clients come from [`store`](crate::store).

mod leaf;
mod sct_list;

pub use leaf::{LeafOptions, Poison};

use crate::authority::ca_template;
use crate::certificate::random_serial;
use crate::{
    Authority, CaOptions, Extension, KeyPair, KeyType, Lengths, MintError, Name, Template, Version,
    extension, oid,
};
use sct_list::sct_list;

impl Authority {
    /// Creates a CA below this one.
    ///
    /// # Errors
    /// If the key type cannot be generated.
    pub fn intermediate(&self, options: &CaOptions) -> Result<Self, MintError> {
        let key = KeyPair::generate(options.key)?;
        let mut template = self.ca_template(options, &key)?;
        template.extensions.push(extension::extended_key_usage(&[
            oid::CLIENT_AUTH,
            oid::SERVER_AUTH,
        ]));
        self.subordinate(key, &template)
    }

    /// Creates a Precertificate Signing Certificate of this CA (RFC 6962, section 3.1): a CA with
    /// the Certificate Transparency extended key usage.
    ///
    /// # Errors
    /// If the key type cannot be generated.
    pub fn precert_signing(&self, options: &CaOptions) -> Result<Self, MintError> {
        let key = KeyPair::generate(options.key)?;
        let mut template = self.ca_template(options, &key)?;
        let purpose = extension::extended_key_usage(&[oid::PRECERT_SIGNING]);
        template.extensions.push(purpose);
        self.subordinate(key, &template)
    }

    /// Creates a CA below this one from a template, which may be unusual.
    ///
    /// # Errors
    /// If this CA's key cannot sign with the template's algorithm.
    pub fn subordinate(&self, key: KeyPair, template: &Template) -> Result<Self, MintError> {
        let mut certificates = vec![self.sign(template)?];
        certificates.extend_from_slice(self.certificates());
        Self::new(key, certificates)
    }

    /// Issues a leaf or a precertificate, in DER.
    ///
    /// # Errors
    /// If the algorithm does not fit the CA's key.
    pub fn issue(&self, options: &LeafOptions) -> Result<Vec<u8>, MintError> {
        self.sign(&self.leaf_template(options)?)
    }

    /// Returns the template that [`issue`](Self::issue) signs, for modification.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn leaf_template(&self, options: &LeafOptions) -> Result<Template, MintError> {
        let mut template = Template {
            version: Version::V3,
            serial: options.serial.clone().map_or_else(random_serial, Ok)?,
            algorithm: options.algorithm.unwrap_or(self.key().default_algorithm()),
            inner_algorithm: None,
            outer_algorithm: None,
            issuer: self.name().clone(),
            not_before: options.not_before,
            not_after: options.not_after,
            subject: Name::of_leaf(&options.names),
            spki: options.key.spki().to_vec(),
            extensions: self.leaf_extensions(options)?,
            lengths: Lengths::Minimal,
        };
        if let Some(poison) = options.poison {
            poison.insert(&mut template.extensions);
        }
        Ok(template)
    }

    fn leaf_extensions(&self, options: &LeafOptions) -> Result<Vec<Extension>, MintError> {
        let rsa = matches!(options.key.kind(), KeyType::Rsa(_));
        let mut extensions = Vec::with_capacity(12);
        extensions.push(extension::leaf_key_usage(rsa));
        if !options.eku.is_empty() {
            extensions.push(extension::extended_key_usage(&options.eku));
        }
        extensions.push(extension::end_entity());
        extensions.push(extension::subject_key_id(options.key.id()));
        extensions.extend(self.constant_extensions());
        extensions.push(extension::subject_alt_name(&options.names));
        if options.scts > 0 && options.poison.is_none() {
            let issued_ms = u64::try_from(options.not_before.unix()).unwrap_or(0) * 1000;
            extensions.push(sct_list(options.scts, issued_ms)?);
        }
        extensions.extend_from_slice(&options.extra_extensions);
        Ok(extensions)
    }

    /// Returns the template that [`intermediate`](Self::intermediate) signs for a CA with this key,
    /// without the extended key usage.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub fn ca_template(&self, options: &CaOptions, key: &KeyPair) -> Result<Template, MintError> {
        let mut template = ca_template(options, key)?;
        template.issuer = self.name().clone();
        template.algorithm = options.algorithm.unwrap_or(self.key().default_algorithm());
        template.extensions.extend(self.constant_extensions());
        Ok(template)
    }

    /// Returns AKI, AIA, policies and CRL DP. All certificates of a CA share these extensions, so
    /// they are created once.
    fn constant_extensions(&self) -> impl Iterator<Item = Extension> {
        let services = self.services.get_or_init(|| services(self.key()));
        self.authority_key_id().into_iter().chain(services).cloned()
    }
}

/// Returns AIA, policies and CRL DP. The URLs contain a part of the key identifier, as with real
/// CAs.
fn services(key: &KeyPair) -> [Extension; 3] {
    let tag: String = key.id()[..2]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    [
        extension::authority_info_access(
            Some(&format!("http://r{tag}.o.example.test")),
            &format!("http://r{tag}.i.example.test/"),
        ),
        extension::policies(&[oid::DOMAIN_VALIDATED]),
        extension::crl_distribution_point(&format!("http://r{tag}.c.example.test/7.crl")),
    ]
}
