//! Certificates as CAs of the WebPKI issue them, including unusual ones, for tests and load tests.
//! The certificates contain URLs of revocation services at which no server responds. Certificates
//! for clients come from [`store`](crate::store).

use std::sync::Arc;

use crate::authority::ca_template;
use crate::certificate::random_serial;
use crate::der::tag;
use crate::{
    Authority, CaOptions, Der, Extension, KeyPair, KeyType, Lengths, MintError, Name, Oid,
    SignatureAlgorithm, Template, Time, Version, extension, oid, random,
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
    fn insert(self, extensions: &mut Vec<Extension>) {
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

/// Returns an SCT list extension (RFC 6962, section 3.3) of `count` SCTs with the format and size
/// of real SCTs. The SCTs have `leaf_index` extensions and random signatures that no key verifies.
fn sct_list(count: usize, timestamp_ms: u64) -> Result<Extension, MintError> {
    let mut list = Vec::with_capacity(count * 130);
    for _ in 0..count {
        let sct = sct(timestamp_ms)?;
        list.extend_from_slice(&(sct.len() as u16).to_be_bytes());
        list.extend_from_slice(&sct);
    }
    let mut value = (list.len() as u16).to_be_bytes().to_vec();
    value.extend_from_slice(&list);
    Ok(Extension::new(oid::SCT_LIST, false, |der| {
        der.put(tag::OCTET_STRING, &value);
    }))
}

/// Returns a serialized SCT (RFC 6962, section 3.2).
fn sct(timestamp_ms: u64) -> Result<Vec<u8>, MintError> {
    let mut noise = [0; 32 + 3 + 64];
    random(&mut noise)?;
    let mut sct = vec![0]; // version 1
    sct.extend_from_slice(&noise[..32]); // log id
    sct.extend_from_slice(&timestamp_ms.to_be_bytes());
    sct.extend_from_slice(&[0, 8, 0, 0, 5, 0, 0]); // leaf_index, 40 bits
    sct.extend_from_slice(&noise[32..35]);
    let signature = Der::build(|der| {
        der.sequence(|der| {
            for half in noise[35..].chunks(32) {
                let mut half = half.to_vec();
                half[0] = half[0] & 0x7f | 0x40; // positive, full length
                der.integer_bytes(&half);
            }
        });
    });
    sct.extend_from_slice(&[4, 3]); // SHA-256, ECDSA
    sct.extend_from_slice(&(signature.len() as u16).to_be_bytes());
    sct.extend_from_slice(&signature);
    Ok(sct)
}
