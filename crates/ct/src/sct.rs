//! Signed Certificate Timestamps (RFC 6962, section 3.2) with the `leaf_index` extension, and the
//! lists of them (section 3.3) in certificates, stapled OCSP responses and TLS extensions.

use std::borrow::Cow;

use base64_simd::STANDARD;
use bytes::Bytes;
use lucarne_tlog::{Hash, leaf_hash};
use serde::Deserialize;

use crate::certificate::Certificate;
use crate::entry::{SignedEntry, sha256};
use crate::leaf::{leaf_index, leaf_index_extension, timestamped_entry};
use crate::precert::tbs_without_scts;
use crate::public_key::{LogId, PublicKey};

/// A Signed Certificate Timestamp, version 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sct {
    /// ID of the log.
    pub log_id: LogId,
    /// Timestamp in milliseconds since 1970.
    pub timestamp: u64,
    /// The extensions; a static CT log has the `leaf_index`.
    pub extensions: Vec<u8>,
    /// DigitallySigned: algorithms, length and signature.
    pub signature: Vec<u8>,
}

/// The reasons why bytes are not an SCT, or not an SCT for this entry.
#[derive(Debug, thiserror::Error)]
pub enum SctError {
    /// The bytes are not the JSON of RFC 6962, section 4.1.
    #[error("not an SCT: {0}")]
    Json(#[from] serde_json::Error),
    /// A field is not base64, or has the wrong length.
    #[error("not an SCT: the field {0} is not valid base64 of the right length")]
    Field(&'static str),
    /// The bytes are not the structure of RFC 6962, section 3.2.
    #[error("not an SCT: {0}")]
    Encoding(&'static str),
    /// The version is not v1 (0).
    #[error("SCT version {0} is unknown; expected 0 (v1)")]
    Version(u8),
    /// The SCT is from another log than the log of the key.
    #[error("the SCT is from log {found}; expected log {expected}")]
    OtherLog {
        /// ID of the key's log.
        expected: LogId,
        /// ID in the SCT.
        found: LogId,
    },
    /// The signature does not verify for this entry.
    #[error("the SCT's signature does not verify for this entry")]
    Signature,
}

/// Returns the signed input of an SCT: version v1, signature_type certificate_timestamp,
/// TimestampedEntry.
pub(crate) fn signed_data(timestamp: u64, signed: &SignedEntry, extensions: &[u8]) -> Vec<u8> {
    let mut message = Vec::with_capacity(2048);
    message.extend_from_slice(&[0, 0]);
    timestamped_entry(timestamp, signed.into(), extensions, &mut message);
    message
}

impl Sct {
    /// Creates the SCT that a log signed for the entry at `index`.
    pub fn signed(log_id: LogId, timestamp: u64, index: u64, signature: Vec<u8>) -> Self {
        Self {
            log_id,
            timestamp,
            extensions: leaf_index_extension(index).to_vec(),
            signature,
        }
    }

    /// Returns the response to `add-chain` and `add-pre-chain` (RFC 6962, section 4.1).
    pub fn to_json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(256);
        json.extend_from_slice(b"{\"sct_version\":0,\"id\":\"");
        STANDARD.encode_append(self.log_id.0, &mut json);
        json.extend_from_slice(b"\",\"timestamp\":");
        json.extend_from_slice(self.timestamp.to_string().as_bytes());
        json.extend_from_slice(b",\"extensions\":\"");
        STANDARD.encode_append(&self.extensions, &mut json);
        json.extend_from_slice(b"\",\"signature\":\"");
        STANDARD.encode_append(&self.signature, &mut json);
        json.extend_from_slice(b"\"}");
        json
    }

    /// Parses the response of a log.
    ///
    /// # Errors
    /// [`SctError::Json`], [`SctError::Version`], [`SctError::Field`].
    pub fn parse(json: &[u8]) -> Result<Self, SctError> {
        let answer: Answer<'_> = serde_json::from_slice(json)?;
        if answer.sct_version != 0 {
            return Err(SctError::Version(answer.sct_version));
        }
        let field = |name, base64: Cow<'_, str>| {
            STANDARD
                .decode_to_vec(base64.as_bytes())
                .map_err(|_| SctError::Field(name))
        };
        let id = field("id", answer.id)?;
        Ok(Self {
            log_id: LogId(id.try_into().map_err(|_| SctError::Field("id"))?),
            timestamp: answer.timestamp,
            extensions: field("extensions", answer.extensions)?,
            signature: field("signature", answer.signature)?,
        })
    }

    /// Returns the index of the entry in the tree, if the SCT has it.
    pub fn index(&self) -> Option<u64> {
        leaf_index(&self.extensions)
    }

    /// Verifies that the log signed this SCT for this entry.
    ///
    /// # Errors
    /// [`SctError::OtherLog`], [`SctError::Signature`].
    pub fn verify(&self, key: &PublicKey, signed: &SignedEntry) -> Result<(), SctError> {
        let (expected, found) = (key.log_id(), self.log_id);
        if expected != found {
            return Err(SctError::OtherLog { expected, found });
        }
        let message = signed_data(self.timestamp, signed, &self.extensions);
        if key.verify(&message, &self.signature) {
            Ok(())
        } else {
            Err(SctError::Signature)
        }
    }

    /// Returns the hash of the leaf that the log promised for this entry. The bytes of a
    /// MerkleTreeLeaf are the signed bytes of the SCT (RFC 6962, sections 3.2 and 3.4).
    pub fn leaf_hash(&self, signed: &SignedEntry) -> Hash {
        leaf_hash(&signed_data(self.timestamp, signed, &self.extensions))
    }

    /// Parses a SignedCertificateTimestamp (RFC 6962, section 3.2).
    ///
    /// # Errors
    /// [`SctError::Version`], [`SctError::Encoding`].
    pub fn from_tls(bytes: &[u8]) -> Result<Self, SctError> {
        let mut rest = bytes;
        let short = || SctError::Encoding("there are too few bytes");
        match take::<1>(&mut rest).ok_or_else(short)? {
            [0] => {}
            [version] => return Err(SctError::Version(version)),
        }
        let log_id = LogId(take(&mut rest).ok_or_else(short)?);
        let timestamp = u64::from_be_bytes(take(&mut rest).ok_or_else(short)?);
        let extensions = opaque(&mut rest).ok_or_else(short)?.to_vec();
        // DigitallySigned: two bytes of algorithms, then the signature.
        let (_, mut after) = rest.split_first_chunk::<2>().ok_or_else(short)?;
        opaque(&mut after).ok_or_else(short)?;
        match after {
            [] => Ok(Self {
                log_id,
                timestamp,
                extensions,
                signature: rest.to_vec(),
            }),
            _ => Err(SctError::Encoding("bytes are left after the signature")),
        }
    }

    /// Encodes the SignedCertificateTimestamp of RFC 6962, section 3.2.
    ///
    /// # Errors
    /// [`SctError::Encoding`] if the extensions are longer than 2^16-1 bytes.
    pub fn to_tls(&self) -> Result<Vec<u8>, SctError> {
        let mut out = Vec::with_capacity(43 + self.extensions.len() + self.signature.len());
        out.push(0);
        out.extend_from_slice(&self.log_id.0);
        out.extend_from_slice(&self.timestamp.to_be_bytes());
        push_opaque(&self.extensions, &mut out)?;
        out.extend_from_slice(&self.signature);
        Ok(out)
    }
}

/// The fields of the response, borrowed from the JSON if there are no escapes.
#[derive(Deserialize)]
struct Answer<'a> {
    sct_version: u8,
    #[serde(borrow)]
    id: Cow<'a, str>,
    timestamp: u64,
    #[serde(borrow)]
    extensions: Cow<'a, str>,
    #[serde(borrow)]
    signature: Cow<'a, str>,
}

/// A borrowed SignedCertificateTimestampList. Its lengths are valid; [`iter`](Self::iter) parses
/// its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SctList<'a>(&'a [u8]);

impl<'a> SctList<'a> {
    /// Parses the list: a length of two bytes, then each SCT with a length of two bytes.
    ///
    /// # Errors
    /// [`SctError::Encoding`] if lengths are inconsistent, or if the list or a member is empty,
    /// which RFC 6962 forbids.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, SctError> {
        let wrong = SctError::Encoding("the lengths of the list do not add up");
        let mut rest = bytes;
        let list = match opaque(&mut rest) {
            Some(list) if rest.is_empty() => list,
            _ => return Err(wrong),
        };
        if list.is_empty() {
            return Err(SctError::Encoding("the list is empty"));
        }
        let mut members = list;
        while !members.is_empty() {
            match opaque(&mut members) {
                Some([]) => return Err(SctError::Encoding("a member of the list is empty")),
                Some(_) => {}
                None => return Err(wrong),
            }
        }
        Ok(Self(list))
    }

    /// Returns the members in order. A member of another version, or a member that is not an SCT,
    /// does not affect the other members: RFC 6962 permits such extensions of lists.
    pub fn iter(&self) -> impl Iterator<Item = Result<Sct, SctError>> + use<'a> {
        let mut members = self.0;
        std::iter::from_fn(move || opaque(&mut members).map(Sct::from_tls))
    }
}

/// Encodes the list of these SCTs in the TLS presentation language.
///
/// # Errors
/// [`SctError::Encoding`] if the list is longer than 2^16-1 bytes.
pub fn encode_sct_list(scts: &[Sct]) -> Result<Vec<u8>, SctError> {
    let mut list = Vec::with_capacity(scts.len() * 128);
    for sct in scts {
        push_opaque(&sct.to_tls()?, &mut list)?;
    }
    let mut out = Vec::with_capacity(list.len() + 2);
    push_opaque(&list, &mut out)?;
    Ok(out)
}

/// Returns the entry of the SCTs that are embedded in `certificate`, issued by `issuer`: the
/// TBSCertificate without the SCT list, and the issuer's key hash (RFC 6962, section 3.2).
pub fn embedded_entry(certificate: &Certificate<'_>, issuer: &Certificate<'_>) -> SignedEntry {
    SignedEntry::Precert {
        issuer_key_hash: sha256(&[issuer.spki()]),
        tbs: Bytes::from(tbs_without_scts(certificate)),
    }
}

/// Returns the entry of SCTs in an OCSP response or in the TLS handshake: the whole certificate.
pub fn delivered_entry(certificate: &Certificate<'_>) -> SignedEntry {
    SignedEntry::X509 {
        certificate: Bytes::copy_from_slice(certificate.raw()),
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Parses `opaque<0..2^16-1>`.
fn opaque<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u16::from_be_bytes(take(bytes)?);
    let (value, rest) = bytes.split_at_checked(usize::from(length))?;
    *bytes = rest;
    Some(value)
}

fn push_opaque(value: &[u8], out: &mut Vec<u8>) -> Result<(), SctError> {
    let length = u16::try_from(value.len());
    let length = length.map_err(|_| SctError::Encoding("more than 65,535 bytes"))?;
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(value);
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::key::LogKey;

    #[test]
    fn signed_shown_parsed_verified() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let public = key.public_key().unwrap();
        let certificate = Bytes::from_static(b"a certificate");
        let entry = SignedEntry::X509 { certificate };
        let sct = key
            .sign_sct(1_767_225_600_123, &entry, 0x01_0203_0405)
            .unwrap();
        assert_eq!(sct.extensions, [0, 0, 5, 1, 2, 3, 4, 5]);
        assert_eq!(sct.index(), Some(0x01_0203_0405));
        let json = String::from_utf8(sct.to_json()).unwrap();
        let start = format!(
            "{{\"sct_version\":0,\"id\":\"{}\",\"timestamp\":1767225600123,\"extensions\":\"AAAFAQIDBAU=\",\"signature\":\"BAM",
            key.log_id()
        );
        assert!(json.starts_with(&start), "{json}");
        let parsed = Sct::parse(json.as_bytes()).unwrap();
        assert_eq!(parsed, sct);
        parsed.verify(&public, &entry).unwrap();

        let other = SignedEntry::Precert {
            issuer_key_hash: [0; 32],
            tbs: Bytes::from_static(b"a certificate"),
        };
        assert!(matches!(
            sct.verify(&public, &other),
            Err(SctError::Signature)
        ));
        let late = Sct {
            timestamp: sct.timestamp + 1,
            ..sct.clone()
        };
        assert!(matches!(
            late.verify(&public, &entry),
            Err(SctError::Signature)
        ));
        let stranger = LogKey::from_seed(&[8; 32]).unwrap().public_key().unwrap();
        let verdict = sct.verify(&stranger, &entry);
        assert!(matches!(verdict, Err(SctError::OtherLog { .. })));
    }

    #[test]
    fn the_index_is_the_one_of_a_valid_list() {
        let index = |extensions: &[&[u8]]| {
            let sct = Sct {
                log_id: LogId([0; 32]),
                timestamp: 0,
                extensions: extensions.concat(),
                signature: Vec::new(),
            };
            sct.index()
        };
        let leaf_index = [0, 0, 5, 0, 0, 0, 0, 7].as_slice();
        let other = [1, 0, 2, 8, 9].as_slice();
        for valid in [
            &[leaf_index][..],
            &[leaf_index, other],
            &[other, leaf_index],
        ] {
            assert_eq!(index(valid), Some(7), "{valid:?}");
        }
        for invalid in [
            &[][..],
            &[other],
            &[leaf_index, leaf_index],
            &[other, leaf_index, other],
            &[leaf_index, &[1]],
            &[leaf_index, &[1, 0, 2, 8]],
            &[&[0, 0, 4, 0, 0, 0, 7]],
        ] {
            assert_eq!(index(invalid), None, "{invalid:?}");
        }
    }

    #[test]
    fn what_is_no_sct() {
        for json in [
            "",
            "{}",
            r#"{"sct_version":1,"id":"","timestamp":0,"extensions":"","signature":""}"#,
            r#"{"sct_version":0,"id":"AA==","timestamp":0,"extensions":"","signature":""}"#,
            r#"{"sct_version":0,"id":"?","timestamp":-1,"extensions":"","signature":""}"#,
        ] {
            assert!(Sct::parse(json.as_bytes()).is_err(), "{json}");
        }
    }

    fn sct() -> impl Strategy<Value = Sct> {
        let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
        (any::<[u8; 32]>(), any::<u64>(), bytes(20), bytes(80)).prop_map(
            |(id, timestamp, extensions, signature)| {
                let mut digitally_signed = vec![4, 3];
                push_opaque(&signature, &mut digitally_signed).unwrap();
                Sct {
                    log_id: LogId(id),
                    timestamp,
                    extensions,
                    signature: digitally_signed,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_read(scts in proptest::collection::vec(sct(), 1..6)) {
            let list = encode_sct_list(&scts).unwrap();
            let read: Result<Vec<_>, _> = SctList::parse(&list).unwrap().iter().collect();
            prop_assert_eq!(read.unwrap(), scts);
        }

        #[test]
        fn a_list_cut_short_is_refused(scts in proptest::collection::vec(sct(), 1..3), cut in 1..40usize) {
            let list = encode_sct_list(&scts).unwrap();
            prop_assert!(SctList::parse(&list[..list.len() - cut.min(list.len())]).is_err());
        }

        #[test]
        fn nothing_makes_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(list) = SctList::parse(&bytes) {
                for sct in list.iter().flatten() {
                    prop_assert_eq!(Sct::from_tls(&sct.to_tls().unwrap()).unwrap(), sct);
                }
            }
        }
    }

    #[test]
    fn what_is_no_list() {
        for (bytes, why) in [
            (&[][..], "add up"),
            (&[0, 0], "is empty"),
            (&[0, 2, 0, 0], "member"),
            (&[0, 3, 0, 1], "add up"),
            (&[0, 3, 0, 2, 0], "add up"),
            (&[0, 3, 0, 1, 0, 9], "add up"),
        ] {
            let error = SctList::parse(bytes).unwrap_err().to_string();
            assert!(error.contains(why), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn another_version_says_nothing_of_the_others() {
        let good = Sct {
            log_id: LogId([7; 32]),
            timestamp: 1,
            extensions: vec![],
            signature: vec![4, 3, 0, 1, 9],
        };
        let mut list = Vec::new();
        push_opaque(&[1, 2, 3], &mut list).unwrap();
        push_opaque(&good.to_tls().unwrap(), &mut list).unwrap();
        push_opaque(&[0, 1], &mut list).unwrap();
        let mut bytes = Vec::new();
        push_opaque(&list, &mut bytes).unwrap();
        let scts: Vec<_> = SctList::parse(&bytes).unwrap().iter().collect();
        assert!(matches!(scts[0], Err(SctError::Version(1))));
        assert_eq!(scts[1].as_ref().unwrap(), &good);
        assert!(matches!(
            scts[2],
            Err(SctError::Encoding("there are too few bytes"))
        ));
        let mut long = good.to_tls().unwrap();
        long.push(0);
        let error = Sct::from_tls(&long).unwrap_err().to_string();
        assert!(error.contains("left after"), "{error}");
    }
}
