//! Certificates that are created for hosts.

use crate::certificate::random_serial;
use crate::{
    Authority, Extension, KeyPair, KeyType, Lengths, MintError, Name, Template, Time, Version,
    extension, oid,
};

/// An unissued server certificate with the fields that clients need. The certificate has no
/// policies, and no URLs of revocation lists or OCSP, because no server would respond there.
pub(super) struct ServerCertificate<'a> {
    /// DNS names and IP addresses.
    pub(super) names: &'a [String],
    pub(super) not_before: Time,
    pub(super) not_after: Time,
    /// Key of the server.
    pub(super) key: &'a KeyPair,
}

impl ServerCertificate<'_> {
    /// Issues the certificate by `ca` and returns its DER.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(super) fn issue(&self, ca: &Authority) -> Result<Vec<u8>, MintError> {
        ca.sign(&self.template(ca)?)
    }

    fn template(&self, ca: &Authority) -> Result<Template, MintError> {
        let subject = Name::of_leaf(self.names);
        Ok(Template {
            version: Version::V3,
            serial: random_serial()?,
            algorithm: ca.key().default_algorithm(),
            inner_algorithm: None,
            outer_algorithm: None,
            issuer: ca.name().clone(),
            not_before: self.not_before,
            not_after: self.not_after,
            extensions: self.extensions(ca, &subject),
            subject,
            spki: self.key.spki().to_vec(),
            lengths: Lengths::Minimal,
        })
    }

    fn extensions(&self, ca: &Authority, subject: &Name) -> Vec<Extension> {
        let rsa = matches!(self.key.kind(), KeyType::Rsa(_));
        let mut names = extension::subject_alt_name(self.names);
        // RFC 5280, section 4.2.1.6: with an empty subject, the subjectAltName is critical.
        names.critical = *subject == Name::empty();
        let mut extensions = vec![
            extension::leaf_key_usage(rsa),
            extension::extended_key_usage(&[oid::SERVER_AUTH]),
            extension::end_entity(),
            extension::subject_key_id(self.key.id()),
        ];
        extensions.extend(ca.authority_key_id().cloned());
        extensions.push(names);
        extensions
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::LeafOptions;
    use crate::testing::Pki;

    /// Returns a WebPKI leaf without URLs of services and without policies.
    fn stripped(ca: &Authority, options: &LeafOptions) -> Template {
        let mut template = ca.leaf_template(options).unwrap();
        for oid in [
            oid::AUTHORITY_INFO_ACCESS,
            oid::CRL_DISTRIBUTION_POINTS,
            oid::CERTIFICATE_POLICIES,
        ] {
            template.remove_extension(&oid);
        }
        if template.subject == Name::empty() {
            let names = template.extension_mut(&oid::SUBJECT_ALT_NAME);
            names.unwrap().critical = true;
        }
        template
    }

    #[test]
    fn it_is_a_leaf_of_the_webpki_without_services() {
        let pki = Pki::shared();
        let long = format!("{}.example.test", "a".repeat(60));
        for kind in [KeyType::EcdsaP256, KeyType::Rsa(2048)] {
            let key = Arc::new(KeyPair::generate(kind).unwrap());
            for names in [&["a.test", "*.a.test"][..], &["192.0.2.7"], &[&long]] {
                for ca in [&pki.root, &pki.rsa, &pki.p384] {
                    let mut options = LeafOptions::with_key(names.to_vec(), key.clone());
                    options.eku = vec![oid::SERVER_AUTH];
                    let certificate = ServerCertificate {
                        names: &options.names,
                        not_before: options.not_before,
                        not_after: options.not_after,
                        key: &key,
                    };
                    let template = certificate.template(ca).unwrap();
                    options.serial = Some(template.serial.clone());
                    assert_eq!(template.tbs(), stripped(ca, &options).tbs());
                    assert_eq!(template.algorithm, ca.key().default_algorithm());
                }
            }
        }
    }
}
