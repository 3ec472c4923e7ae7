//! A certificate as a view of its bytes (RFC 5280, section 4.1).

use lucarne_x509::der::{DerError, Reader, Tlv, tag};
use lucarne_x509::{oid, time};

/// A certificate, borrowed from its DER. Every slice has the original bytes.
///
/// A well-formed certificate has the structure of RFC 5280, no trailing bytes, and extensions that
/// can be separated. The values of names, times, keys and extensions are only parsed when needed.
///
/// # Examples
///
/// ```
/// use lucarne_ct::{Certificate, display_name};
/// use lucarne_mint::{Authority, CaOptions, KeyType};
///
/// let root = Authority::root(&CaOptions::named("Example Root", KeyType::EcdsaP256))?;
/// let certificate = Certificate::parse(root.cert_der())?;
/// assert!(certificate.is_authority());
/// assert_eq!(certificate.issuer(), certificate.subject());
/// assert!(display_name(certificate.subject()).contains("Example Root"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Certificate<'a> {
    whole: Tlv<'a>,
    tbs: Tlv<'a>,
    version: u8,
    serial: Tlv<'a>,
    tbs_algorithm: Tlv<'a>,
    issuer: Tlv<'a>,
    validity: Tlv<'a>,
    subject: Tlv<'a>,
    spki: Tlv<'a>,
    /// `[3]`, and the SEQUENCE OF Extension inside.
    extensions: Option<(Tlv<'a>, Tlv<'a>)>,
    algorithm: Tlv<'a>,
    /// The BIT STRING.
    signature: Tlv<'a>,
}

impl<'a> Certificate<'a> {
    /// Parses the certificate that fills `der`.
    ///
    /// # Errors
    /// The first field that violates the structure of RFC 5280, with its position.
    pub fn parse(der: &'a [u8]) -> Result<Self, DerError> {
        let mut outer = Reader::new(der);
        let certificate = outer.expect(tag::SEQUENCE, "Certificate")?;
        outer.finish("Certificate")?;
        let mut fields = certificate.reader();
        let tbs = fields.expect(tag::SEQUENCE, "tbsCertificate")?;
        let algorithm = fields.expect(tag::SEQUENCE, "signatureAlgorithm")?;
        let signature = fields.expect(tag::BIT_STRING, "signatureValue")?;
        fields.finish("signatureValue")?;
        let tbs_fields = TbsFields::walk(tbs)?;
        Ok(Self {
            whole: certificate,
            tbs,
            version: tbs_fields.version,
            serial: tbs_fields.serial,
            tbs_algorithm: tbs_fields.algorithm,
            issuer: tbs_fields.issuer,
            validity: tbs_fields.validity,
            subject: tbs_fields.subject,
            spki: tbs_fields.spki,
            extensions: tbs_fields.extensions,
            algorithm,
            signature,
        })
    }

    /// Returns the whole certificate.
    pub fn raw(&self) -> &'a [u8] {
        self.whole.raw
    }

    /// Returns the TBSCertificate, which the signature covers, including tag and length.
    pub fn tbs(&self) -> &'a [u8] {
        self.tbs.raw
    }

    /// Returns the version: the encoded value plus 1, usually 3; 1 if the field is absent.
    pub fn version(&self) -> u8 {
        self.version
    }

    /// Returns the serial number: the content octets of the INTEGER.
    pub fn serial(&self) -> &'a [u8] {
        self.serial.value
    }

    /// Returns the issuer's Name, including tag and length.
    pub fn issuer(&self) -> &'a [u8] {
        self.issuer.raw
    }

    /// Returns the subject's Name, including tag and length.
    pub fn subject(&self) -> &'a [u8] {
        self.subject.raw
    }

    /// Returns the SubjectPublicKeyInfo, including tag and length.
    pub fn spki(&self) -> &'a [u8] {
        self.spki.raw
    }

    /// Returns the AlgorithmIdentifier next to the signature.
    pub fn algorithm(&self) -> &'a [u8] {
        self.algorithm.raw
    }

    /// Returns the AlgorithmIdentifier in the signed part.
    pub fn tbs_algorithm(&self) -> &'a [u8] {
        self.tbs_algorithm.raw
    }

    /// Returns the signature, without the BIT STRING's octet of unused bits.
    pub fn signature(&self) -> &'a [u8] {
        self.signature.value.get(1..).unwrap_or_default()
    }

    /// Returns notBefore in milliseconds since 1970, if it is a valid time.
    pub fn not_before(&self) -> Option<i64> {
        time::milliseconds(self.validity.reader().any("notBefore").ok()?)
    }

    /// Returns notAfter in milliseconds since 1970, if it is a valid time.
    pub fn not_after(&self) -> Option<i64> {
        let mut validity = self.validity.reader();
        validity.any("notBefore").ok()?;
        time::milliseconds(validity.any("notAfter").ok()?)
    }

    /// Returns the extensions in order.
    pub fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        extensions(self.extensions)
    }

    /// Returns the first extension with this identifier (DER content octets).
    pub fn extension(&self, oid: &[u8]) -> Option<Extension<'a>> {
        self.extensions().find(|extension| extension.oid == oid)
    }

    /// Returns `true` for a version 3 certificate with basicConstraints CA:TRUE.
    pub fn is_authority(&self) -> bool {
        let constraints = self.extension(oid::content::BASIC_CONSTRAINTS);
        self.version >= 3 && constraints.is_some_and(|extension| says_ca(extension.value))
    }

    /// Returns the extended key usages (DER content octets); `None` without the extension.
    pub fn extended_key_usages(&self) -> Option<impl Iterator<Item = &'a [u8]> + use<'a>> {
        let value = self.extension(oid::content::EXTENDED_KEY_USAGE)?.value;
        let mut usages = Reader::new(value)
            .expect(tag::SEQUENCE, "extKeyUsage")
            .ok()
            .map(|list| list.reader());
        Some(std::iter::from_fn(move || {
            let usage = usages.as_mut()?.expect(tag::OID, "KeyPurposeId").ok()?;
            Some(usage.value)
        }))
    }

    pub(crate) fn whole_tlv(&self) -> Tlv<'a> {
        self.whole
    }

    pub(crate) fn tbs_tlv(&self) -> Tlv<'a> {
        self.tbs
    }

    pub(crate) fn algorithm_tlv(&self) -> Tlv<'a> {
        self.algorithm
    }

    /// Returns the BIT STRING of the signature.
    pub(crate) fn signature_tlv(&self) -> Tlv<'a> {
        self.signature
    }

    pub(crate) fn issuer_tlv(&self) -> Tlv<'a> {
        self.issuer
    }

    pub(crate) fn spki_tlv(&self) -> Tlv<'a> {
        self.spki
    }

    /// Returns `[3]`, and the SEQUENCE OF Extension inside.
    pub(crate) fn extensions_tlv(&self) -> Option<(Tlv<'a>, Tlv<'a>)> {
        self.extensions
    }

    /// Returns the embedded SignedCertificateTimestampList; `None` if there is none. Use
    /// [`SctList::parse`](crate::SctList::parse) to parse the list.
    ///
    /// # Errors
    /// If the value of the extension is not an OCTET STRING (RFC 6962, section 3.3).
    pub fn embedded_scts(&self) -> Result<Option<&'a [u8]>, DerError> {
        let Some(extension) = self.extension(oid::content::SCT_LIST) else {
            return Ok(None);
        };
        let mut value = Reader::new(extension.value);
        let list = value.expect(tag::OCTET_STRING, "SignedCertificateTimestampList")?;
        value.finish("SignedCertificateTimestampList")?;
        Ok(Some(list.value))
    }
}

/// The fields of a TBSCertificate.
pub(crate) struct TbsFields<'a> {
    pub(crate) version: u8,
    pub(crate) serial: Tlv<'a>,
    pub(crate) algorithm: Tlv<'a>,
    pub(crate) issuer: Tlv<'a>,
    pub(crate) validity: Tlv<'a>,
    pub(crate) subject: Tlv<'a>,
    pub(crate) spki: Tlv<'a>,
    /// `[3]`, and the SEQUENCE OF Extension inside.
    extensions: Option<(Tlv<'a>, Tlv<'a>)>,
}

impl<'a> TbsFields<'a> {
    /// Returns the extensions in order.
    pub(crate) fn extensions(&self) -> impl Iterator<Item = Extension<'a>> + use<'a> {
        extensions(self.extensions)
    }

    /// Parses the fields of a TBSCertificate.
    pub(crate) fn walk(tbs: Tlv<'a>) -> Result<Self, DerError> {
        let mut fields = tbs.reader();
        let version = match fields.optional(tag::context(0), "version")? {
            Some(version) => read_version(version)?,
            None => 1,
        };
        let serial = fields.expect(tag::INTEGER, "serialNumber")?;
        let algorithm = fields.expect(tag::SEQUENCE, "signature")?;
        let issuer = fields.expect(tag::SEQUENCE, "issuer")?;
        let validity = fields.expect(tag::SEQUENCE, "validity")?;
        let subject = fields.expect(tag::SEQUENCE, "subject")?;
        let spki = fields.expect(tag::SEQUENCE, "subjectPublicKeyInfo")?;
        for (number, field) in [(1, "issuerUniqueID"), (2, "subjectUniqueID")] {
            fields.optional(tag::context(number) & !0x20, field)?;
            fields.optional(tag::context(number), field)?;
        }
        let extensions = match fields.optional(tag::context(3), "extensions")? {
            Some(wrapper) => Some((wrapper, walk_extensions(wrapper)?)),
            None => None,
        };
        fields.finish("extensions")?;
        Ok(Self {
            version,
            serial,
            algorithm,
            issuer,
            validity,
            subject,
            spki,
            extensions,
        })
    }
}

/// Iterates over the extensions in the element `[3]`, given with the SEQUENCE OF Extension inside
/// it.
fn extensions<'a>(
    extensions: Option<(Tlv<'a>, Tlv<'a>)>,
) -> impl Iterator<Item = Extension<'a>> + use<'a> {
    let mut list = extensions.map(|(_, list)| list.reader());
    std::iter::from_fn(move || match &mut list {
        Some(list) if !list.is_empty() => Extension::read(list).ok(),
        _ => None,
    })
}

fn read_version(wrapper: Tlv<'_>) -> Result<u8, DerError> {
    let value = wrapper.reader().expect(tag::INTEGER, "version")?.value;
    Ok(value.last().map_or(1, |version| version.saturating_add(1)))
}

/// Checks once that every extension can be parsed, and returns the list.
fn walk_extensions(wrapper: Tlv<'_>) -> Result<Tlv<'_>, DerError> {
    let mut inside = wrapper.reader();
    let list = inside.expect(tag::SEQUENCE, "extensions")?;
    inside.finish("extensions")?;
    let mut extensions = list.reader();
    while !extensions.is_empty() {
        Extension::read(&mut extensions)?;
    }
    Ok(list)
}

fn says_ca(basic_constraints: &[u8]) -> bool {
    let read = || {
        Reader::new(basic_constraints)
            .expect(tag::SEQUENCE, "basicConstraints")?
            .reader()
            .optional(tag::BOOLEAN, "cA")
    };
    matches!(read(), Ok(Some(ca)) if is_true(ca))
}

/// Returns `true` for any nonzero octet: DER requires ff, but the WebPKI also has 01.
fn is_true(boolean: Tlv<'_>) -> bool {
    boolean.value.iter().any(|octet| *octet != 0)
}

/// An extension of a certificate.
#[derive(Debug, Clone, Copy)]
pub struct Extension<'a> {
    /// The whole Extension in DER, including tag and length.
    pub raw: &'a [u8],
    /// DER content octets of the identifier.
    pub oid: &'a [u8],
    /// Whether the extension is critical.
    pub critical: bool,
    /// Content of the OCTET STRING.
    pub value: &'a [u8],
}

impl<'a> Extension<'a> {
    fn read(list: &mut Reader<'a>) -> Result<Self, DerError> {
        let extension = list.expect(tag::SEQUENCE, "Extension")?;
        let mut fields = extension.reader();
        let oid = fields.expect(tag::OID, "extnID")?;
        let critical = fields.optional(tag::BOOLEAN, "critical")?;
        let value = fields.expect(tag::OCTET_STRING, "extnValue")?;
        Ok(Self {
            raw: extension.raw,
            oid: oid.value,
            critical: critical.is_some_and(is_true),
            value: value.value,
        })
    }
}
