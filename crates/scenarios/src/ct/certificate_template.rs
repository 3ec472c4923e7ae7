//! Template of certificates. Only serial number, name and validity change. The template is encoded
//! once, then patched and signed for each submission, so a certificate costs one signature and one
//! copy.

use jiff::Timestamp;
use jiff::tz::Offset;
use lucarne_mint::der::{DerError, Reader, tag};
use lucarne_mint::{Authority, LeafOptions, MintError, Time};

/// Placeholder for the certificate's own label in its names.
pub(crate) const LABEL: &str = "0123456789abcdef";

/// Fields that differ in each certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VariableFields {
    /// The 16 octets of the serial number after the first, which keeps the number positive.
    pub(crate) serial: [u8; 16],
    /// Start of validity, in seconds since 1970.
    pub(crate) not_before: i64,
    /// End of validity, in seconds since 1970.
    pub(crate) not_after: i64,
}

/// Template of certificates.
#[derive(Debug)]
pub(crate) struct CertificateTemplate {
    authority: Authority,
    tbs: Vec<u8>,
    /// AlgorithmIdentifier of the signature, in DER.
    algorithm: Vec<u8>,
    serial: usize,
    labels: Vec<usize>,
    not_before: TimeField,
    not_after: TimeField,
}

/// A time in the TBSCertificate.
#[derive(Clone, Copy, Debug)]
struct TimeField {
    /// Offset of the first digit of the time.
    at: usize,
    /// Whether the time is a GeneralizedTime, with a year of four digits.
    generalized: bool,
}

impl CertificateTemplate {
    /// Creates the template of the certificates that `authority` issues for `options`. Each
    /// certificate replaces every [`LABEL`] in the names.
    ///
    /// # Errors
    /// The errors of [`Authority::leaf_template`].
    pub(crate) fn new(authority: &Authority, options: &LeafOptions) -> Result<Self, MintError> {
        let mut template = authority.leaf_template(options)?;
        template.serial = vec![0x04; 17];
        let tbs = template.tbs();
        let [serial, not_before, not_after] = field_offsets(&tbs)
            .map_err(|_| MintError::Certificate("the template cannot be parsed"))?;
        Ok(Self {
            authority: authority.clone(),
            algorithm: template.algorithm.identifier(),
            serial: serial + 1,
            labels: (0..tbs.len().saturating_sub(LABEL.len()))
                .filter(|at| tbs[*at..].starts_with(LABEL.as_bytes()))
                .collect(),
            not_before: time_field(&tbs, not_before),
            not_after: time_field(&tbs, not_after),
            tbs,
        })
    }

    /// Creates a certificate in DER.
    ///
    /// # Errors
    /// Only if the cryptographic library fails.
    pub(crate) fn mint(&self, fields: &VariableFields) -> Result<Vec<u8>, MintError> {
        let key = self.authority.key();
        let mut certificate = Vec::with_capacity(self.tbs.len() + 600);
        certificate.extend_from_slice(&[tag::SEQUENCE, 0x82, 0, 0]);
        let start = certificate.len();
        certificate.extend_from_slice(&self.tbs);
        self.patch(&mut certificate[start..], fields);
        let signature = key.sign(key.default_algorithm(), &certificate[start..])?;
        certificate.extend_from_slice(&self.algorithm);
        bit_string(&signature, &mut certificate);
        // A certificate with a key, a name and a signature has at least 256 bytes, and these
        // templates have at most 65,535.
        let length = (certificate.len() - start) as u16;
        certificate[2..4].copy_from_slice(&length.to_be_bytes());
        Ok(certificate)
    }

    fn patch(&self, tbs: &mut [u8], fields: &VariableFields) {
        tbs[self.serial..self.serial + 16].copy_from_slice(&fields.serial);
        let label = label(&fields.serial);
        for at in &self.labels {
            tbs[*at..at + label.len()].copy_from_slice(&label);
        }
        self.not_before.write(fields.not_before, tbs);
        self.not_after.write(fields.not_after, tbs);
    }
}

/// Returns the label of a serial number: its last eight octets in hexadecimal, which count the
/// certificates of a run.
fn label(serial: &[u8; 16]) -> [u8; 16] {
    let mut label = [0; 16];
    // The buffer has the right length, so encoding cannot fail.
    let _ = hex::encode_to_slice(&serial[8..], &mut label);
    label
}

impl TimeField {
    fn write(self, seconds: i64, tbs: &mut [u8]) {
        let timestamp = Timestamp::from_second(seconds).unwrap_or_default();
        let time = Offset::UTC.to_datetime(timestamp);
        let mut at = self.at;
        let mut put = |number: i16| {
            let number = number.unsigned_abs() % 100;
            tbs[at] = b'0' + (number / 10) as u8;
            tbs[at + 1] = b'0' + (number % 10) as u8;
            at += 2;
        };
        if self.generalized {
            put(time.year() / 100);
        }
        put(time.year());
        for number in [
            time.month(),
            time.day(),
            time.hour(),
            time.minute(),
            time.second(),
        ] {
            put(number.into());
        }
    }
}

/// Returns the offsets of the contents of the serial number and of the two times.
fn field_offsets(tbs: &[u8]) -> Result<[usize; 3], DerError> {
    let mut fields = Reader::new(tbs).any("tbsCertificate")?.reader();
    fields.any("version")?;
    let serial = fields.any("serialNumber")?;
    fields.any("signature")?;
    fields.any("issuer")?;
    let mut times = fields.any("validity")?.reader();
    let (not_before, not_after) = (times.any("notBefore")?, times.any("notAfter")?);
    Ok([serial, not_before, not_after].map(|field| field.end() - field.value.len()))
}

fn time_field(tbs: &[u8], at: usize) -> TimeField {
    let generalized = tbs[at - 2] == tag::GENERALIZED_TIME;
    TimeField { at, generalized }
}

/// Appends a BIT STRING of whole bytes.
fn bit_string(bytes: &[u8], out: &mut Vec<u8>) {
    let length = (bytes.len() + 1) as u16;
    out.push(tag::BIT_STRING);
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend_from_slice(&[0x81, length as u8]),
        _ => {
            out.push(0x82);
            out.extend_from_slice(&length.to_be_bytes());
        }
    }
    out.push(0);
    out.extend_from_slice(bytes);
}

/// The last second that is encoded with a year of two digits (RFC 5280, section 4.1.2.5). A
/// template keeps its encoding of times.
pub(crate) const LAST_UTC_TIME: i64 = 2_524_607_999;

/// Returns a validity in the encoding that `not_after` requires.
pub(crate) fn sample_validity(not_after: i64) -> (Time, Time) {
    (Time::now(), Time::from_unix(not_after))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lucarne_ct::Certificate;
    use lucarne_mint::testing::Pki;

    use super::*;

    fn options(not_after: i64) -> LeafOptions {
        let names = [
            format!("{LABEL}.example.test"),
            format!("www.{LABEL}.example.test"),
        ];
        let mut options = LeafOptions::with_key(names, Arc::clone(&Pki::shared().leaf_key));
        (options.not_before, options.not_after) = sample_validity(not_after);
        options
    }

    #[test]
    fn a_patched_certificate_is_the_one_that_would_have_been_issued() {
        let pki = Pki::shared();
        for (issuer, end) in [
            (&pki.rsa, 1_788_269_845),
            (&pki.p256, 2_524_608_000),
            (&pki.p384, 1_767_225_600),
        ] {
            let template = CertificateTemplate::new(issuer, &options(end)).unwrap();
            let fields = VariableFields {
                serial: *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff",
                not_before: 1_735_689_599,
                not_after: end + 86_461,
            };
            let minted = template.mint(&fields).unwrap();

            let mut whole = options(end);
            whole.names = ["", "www."]
                .map(|www| format!("{www}8899aabbccddeeff.example.test"))
                .into();
            whole.serial = Some([&[4], &fields.serial[..]].concat());
            whole.not_before = Time::from_unix(fields.not_before);
            whole.not_after = Time::from_unix(fields.not_after);
            let expected = issuer.leaf_template(&whole).unwrap().tbs();
            let certificate = Certificate::parse(&minted).unwrap();
            assert_eq!(certificate.tbs(), expected);
            assert_eq!(certificate.not_after(), Some(fields.not_after * 1000));
        }
    }

    /// The log's own rules verify the signature.
    #[test]
    fn a_log_accepts_it() {
        let pki = Pki::shared();
        let (roots, _) = lucarne_ct::Roots::from_pem(pki.roots_pem().as_bytes());
        let validator = lucarne_ct::Validator::new(Arc::new(roots), Default::default());
        for issuer in [&pki.rsa, &pki.p256, &pki.p384] {
            let not_after = Time::now().unix() + 86_400;
            let template = CertificateTemplate::new(issuer, &options(not_after)).unwrap();
            let fields = VariableFields {
                serial: [9; 16],
                not_before: not_after - 172_800,
                not_after,
            };
            let leaf = template.mint(&fields).unwrap();
            let chain = lucarne_ct::Chain::from_ders([&leaf[..], issuer.cert_der()]).unwrap();
            let now = Time::now().unix() as u64 * 1000;
            let examined = validator
                .examine(&chain, lucarne_ct::EntryKind::X509, now)
                .unwrap();
            validator.verify(examined).unwrap();
        }
    }
}
