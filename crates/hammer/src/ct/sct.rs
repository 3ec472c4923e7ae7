//! Verifying SCTs at the rate at which they come.

use std::borrow::Cow;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use base64_simd::{Out, STANDARD};
use lucarne_ct::{LogId, merkle_tree_leaf};
use lucarne_ecdsa::KnownKey;
use lucarne_tlog::{Hash, leaf_hash};
use serde::Deserialize;

use super::Submission;
use super::checks::{self, Finding};

/// Verifies the SCTs of one log.
#[derive(Debug)]
pub struct SctVerifier {
    /// Says yes quickly; anything else is asked of `key`.
    known: Option<KnownKey>,
    key: ParsedPublicKey,
    log_id: LogId,
}

/// What an SCT promises, once its signature is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// The entry's place.
    pub index: u64,
    /// Its timestamp, in milliseconds since 1970.
    pub timestamp: u64,
    /// The hash that the tree must have at that place.
    pub leaf: Hash,
}

/// Where the point begins in a P-256 SubjectPublicKeyInfo.
const POINT: usize = 26;

impl SctVerifier {
    /// For the log with this SubjectPublicKeyInfo; `None` if it is not a P-256 key.
    #[must_use]
    pub fn new(spki: &[u8]) -> Option<Self> {
        let log_id = lucarne_ct::PublicKey::from_spki(spki).ok()?.log_id();
        Some(Self {
            known: spki.get(POINT..).and_then(KnownKey::p256),
            key: ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, spki).ok()?,
            log_id,
        })
    }

    /// Verifies the answer to a submission. `buffer` is working space.
    ///
    /// # Errors
    /// `sct_wellformed`, `sct_log_id`, `sct_index`, `sct_signature`.
    pub fn verify(
        &self,
        json: &[u8],
        submission: &Submission,
        buffer: &mut Vec<u8>,
    ) -> Result<Promised, Finding> {
        let sct =
            Sct::parse(json).map_err(|problem| Finding::new(checks::SCT_WELLFORMED, problem))?;
        if sct.log_id != self.log_id.0 {
            let detail = format!(
                "the SCT is by log {}, expected {}",
                LogId(sct.log_id),
                self.log_id
            );
            return Err(Finding::new(checks::SCT_LOG_ID, detail));
        }
        let index = sct
            .index()
            .map_err(|problem| Finding::new(checks::SCT_INDEX, problem))?;
        let signed = submission.signed().ok_or_else(|| {
            Finding::new(
                checks::SCT_SIGNATURE,
                "the submission itself cannot be read",
            )
        })?;
        buffer.clear();
        // What an SCT signs is, byte for byte, what the tree hashes.
        merkle_tree_leaf(sct.timestamp, &signed, index, buffer);
        if !self.signed(buffer, &sct.signature) {
            let detail = format!("index {index}, timestamp {}", sct.timestamp);
            let detail = format!("the signature does not verify for what was submitted ({detail})");
            return Err(Finding::new(checks::SCT_SIGNATURE, detail));
        }
        Ok(Promised {
            index,
            timestamp: sct.timestamp,
            leaf: leaf_hash(buffer),
        })
    }

    /// Whether a DigitallySigned (RFC 5246 4.7) is the log's over `message`.
    fn signed(&self, message: &[u8], digitally_signed: &[u8]) -> bool {
        let Some((&[4, 3, high, low], signature)) = digitally_signed.split_first_chunk() else {
            return false;
        };
        if usize::from(u16::from_be_bytes([high, low])) != signature.len() {
            return false;
        }
        let digest = digest(&SHA256, message);
        let known = |key: &KnownKey| key.accepts(digest.as_ref(), signature);
        self.known.as_ref().is_some_and(known) || self.key.verify_sig(message, signature).is_ok()
    }
}

/// Whether an SCT's timestamp makes sense for a submission sent and answered at
/// these moments (all in milliseconds since 1970). A repeated one may be as old
/// as it likes.
///
/// # Errors
/// In words.
pub fn timestamp_sane(
    timestamp: u64,
    sent: u64,
    answered: u64,
    repeated: bool,
    tolerance: Duration,
) -> Result<(), String> {
    let tolerance = tolerance.as_millis() as u64;
    if timestamp > answered.saturating_add(tolerance) {
        let ahead = timestamp - answered;
        return Err(format!("the SCT's timestamp is {ahead} ms in the future"));
    }
    if !repeated && timestamp.saturating_add(tolerance) < sent {
        let before = sent - timestamp;
        return Err(format!(
            "the SCT's timestamp is {before} ms before the entry was first submitted"
        ));
    }
    Ok(())
}

/// An SCT as it is answered, decoded.
struct Sct {
    log_id: [u8; 32],
    timestamp: u64,
    extensions: Vec<u8>,
    signature: Vec<u8>,
}

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

impl Sct {
    fn parse(json: &[u8]) -> Result<Self, String> {
        let answer: Answer<'_> = serde_json::from_slice(json)
            .map_err(|error| format!("not an SCT: {error}: {}", excerpt(json)))?;
        if answer.sct_version != 0 {
            return Err(format!("SCT version {} is unknown", answer.sct_version));
        }
        let decode = |name: &str, base64: &str| {
            STANDARD
                .decode_to_vec(base64)
                .map_err(|_| format!("not an SCT: its {name} is not base64"))
        };
        let mut id = [0; 33];
        let id = STANDARD
            .decode(answer.id.as_bytes(), Out::from_slice(&mut id))
            .ok()
            .and_then(|id| <[u8; 32]>::try_from(&*id).ok());
        Ok(Self {
            log_id: id.ok_or("not an SCT: its id is not 32 bytes of base64")?,
            timestamp: answer.timestamp,
            extensions: decode("extensions", &answer.extensions)?,
            signature: decode("signature", &answer.signature)?,
        })
    }

    /// The index in the extensions, which are `00 0005` and its five bytes.
    fn index(&self) -> Result<u64, String> {
        match self.extensions[..] {
            [0, 0, 5, a, b, c, d, e] => Ok(u64::from_be_bytes([0, 0, 0, a, b, c, d, e])),
            _ => Err(format!(
                "the SCT's extensions are {}, not one leaf_index (000005 and five bytes)",
                match self.extensions[..] {
                    [] => "empty".to_owned(),
                    ref other => hex::encode(other),
                }
            )),
        }
    }
}

/// The beginning of an answer, for a message.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(160)]);
    let text = text.trim().replace(char::is_control, " ");
    match text.is_empty() {
        true => "(an empty answer)".to_owned(),
        false => text,
    }
}
