//! Verification of SCTs at the rate of their arrival.

use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ParsedPublicKey};
use lucarne_ct::{LogId, Sct, SctError, merkle_tree_leaf};
use lucarne_ecdsa::KnownKey;
use lucarne_tlog::{Hash, leaf_hash};

use super::Submission;
use super::checks::{self, Finding};

/// Verifier of the SCTs of one log.
#[derive(Debug)]
pub struct SctVerifier {
    /// The key in a form that accepts valid signatures quickly. `key` verifies other signatures.
    known: Option<KnownKey>,
    key: ParsedPublicKey,
    log_id: LogId,
}

/// An SCT whose signature is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifiedSct {
    /// Index of the entry.
    pub index: u64,
    /// Timestamp in milliseconds since 1970.
    pub timestamp: u64,
    /// Hash of the leaf at this index.
    pub leaf: Hash,
}

/// The reasons why a response is not the log's SCT of a submission.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WrongSct {
    /// The response is not an SCT of version 1 in JSON.
    #[error("{source}: {excerpt}")]
    Malformed {
        /// Error of the parser.
        source: SctError,
        /// Beginning of the response.
        excerpt: String,
    },
    /// Another log signed the SCT.
    #[error("the SCT is by log {found}, expected {expected}")]
    OtherLog {
        /// Log of the SCT.
        found: LogId,
        /// Log of the submission.
        expected: LogId,
    },
    /// The extensions are not one `leaf_index`.
    #[error("the SCT's extensions are {}, not one leaf_index (000005 and five bytes)", hex_or_empty(.0))]
    Extensions(Vec<u8>),
    /// The load test cannot parse its own submission.
    #[error("the submission itself cannot be parsed")]
    Submission,
    /// The signature is not the log's signature of the submission.
    #[error(
        "the signature does not verify for the submission (index {index}, timestamp {timestamp})"
    )]
    Signature {
        /// Index in the SCT.
        index: u64,
        /// Timestamp of the SCT.
        timestamp: u64,
    },
}

impl WrongSct {
    /// Returns the name of the failed check.
    #[must_use]
    pub fn check(&self) -> &'static str {
        match self {
            WrongSct::Malformed { .. } => checks::SCT_WELLFORMED,
            WrongSct::OtherLog { .. } => checks::SCT_LOG_ID,
            WrongSct::Extensions(_) => checks::SCT_INDEX,
            WrongSct::Submission | WrongSct::Signature { .. } => checks::SCT_SIGNATURE,
        }
    }
}

impl From<WrongSct> for Finding {
    fn from(wrong: WrongSct) -> Self {
        Finding::new(wrong.check(), wrong)
    }
}

/// Offset of the point in a P-256 SubjectPublicKeyInfo.
const POINT: usize = 26;

impl SctVerifier {
    /// Creates a verifier for the log with this SubjectPublicKeyInfo. Returns `None` if the key is
    /// not on P-256.
    #[must_use]
    pub fn new(spki: &[u8]) -> Option<Self> {
        let log_id = lucarne_ct::PublicKey::from_spki(spki).ok()?.log_id();
        Some(Self {
            known: spki.get(POINT..).and_then(KnownKey::p256_alone),
            key: ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, spki).ok()?,
            log_id,
        })
    }

    /// Verifies the response to a submission. `buffer` is working space.
    ///
    /// # Errors
    /// All of [`WrongSct`].
    pub fn verify(
        &self,
        json: &[u8],
        submission: &Submission,
        buffer: &mut Vec<u8>,
    ) -> Result<VerifiedSct, WrongSct> {
        let sct = Sct::parse(json).map_err(|source| WrongSct::Malformed {
            source,
            excerpt: excerpt(json),
        })?;
        let (found, expected) = (sct.log_id, self.log_id);
        if found != expected {
            return Err(WrongSct::OtherLog { found, expected });
        }
        let (index, timestamp) = (only_index(&sct.extensions)?, sct.timestamp);
        let signed = submission.signed().ok_or(WrongSct::Submission)?;
        buffer.clear();
        // The signed bytes of an SCT are exactly the hashed bytes of the tree's leaf.
        merkle_tree_leaf(timestamp, &signed, index, buffer);
        if !self.signed(buffer, &sct.signature) {
            return Err(WrongSct::Signature { index, timestamp });
        }
        Ok(VerifiedSct {
            index,
            timestamp,
            leaf: leaf_hash(buffer),
        })
    }

    /// Returns whether a DigitallySigned (RFC 5246, section 4.7) is the log's signature of
    /// `message`.
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

/// The reasons why the timestamp of an SCT is not plausible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TimestampError {
    /// The timestamp is after the response, by this number of milliseconds.
    #[error("the SCT's timestamp is {0} ms in the future")]
    Future(u64),
    /// The timestamp of a new entry is before its first submission, by this number of milliseconds.
    #[error("the SCT's timestamp is {0} ms before the entry was first submitted")]
    BeforeSubmission(u64),
}

/// Checks that an SCT's timestamp is plausible for a submission with these times of sending and
/// response (all in milliseconds since 1970). The timestamp of a repeated submission may be
/// arbitrarily old.
///
/// # Errors
/// All of [`TimestampError`].
pub fn timestamp_sane(
    timestamp: u64,
    sent: u64,
    answered: u64,
    repeated: bool,
    tolerance: Duration,
) -> Result<(), TimestampError> {
    let tolerance = tolerance.as_millis() as u64;
    if timestamp > answered.saturating_add(tolerance) {
        return Err(TimestampError::Future(timestamp - answered));
    }
    if !repeated && timestamp.saturating_add(tolerance) < sent {
        return Err(TimestampError::BeforeSubmission(sent - timestamp));
    }
    Ok(())
}

/// Returns the index from extensions that consist of `00 0005` and five bytes only. Only then are
/// the signed bytes of the SCT the leaf of the tree.
fn only_index(extensions: &[u8]) -> Result<u64, WrongSct> {
    match *extensions {
        [0, 0, 5, a, b, c, d, e] => Ok(u64::from_be_bytes([0, 0, 0, a, b, c, d, e])),
        _ => Err(WrongSct::Extensions(extensions.to_vec())),
    }
}

fn hex_or_empty(bytes: &[u8]) -> String {
    match bytes {
        [] => "empty".to_owned(),
        bytes => hex::encode(bytes),
    }
}

/// Returns the beginning of a response, for a message.
pub(crate) fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(160)]);
    let text = text.trim().replace(char::is_control, " ");
    if text.is_empty() {
        "(an empty response)".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use lucarne_ct::LogKey;

    use super::*;
    use crate::ct::{Authorities, ChainGenerator, Issuers, Roots, TemporalInterval};
    use crate::random::Random;

    /// The log's own signer creates the SCTs; each change afterwards is found under its name.
    #[test]
    fn flaws_have_names() {
        let directory = tempfile::tempdir().unwrap();
        let roots = Roots::open_or_create(&directory.path().join("ca")).unwrap();
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let verifier = SctVerifier::new(key.public_key_spki()).unwrap();
        let mut buffer = Vec::new();
        for precerts in [0.0, 1.0] {
            let authorities = Authorities::Made(Box::new(roots.clone()));
            let chains = ChainGenerator::new(
                &authorities,
                Issuers::P256,
                precerts,
                TemporalInterval::default(),
                0,
            );
            let next = |chains: &ChainGenerator| chains.next(&mut Random::new(1, 1)).unwrap().0;
            let chains = chains.unwrap();
            let (submission, other) = (next(&chains), next(&chains));
            let signed = submission.signed().unwrap();
            let sct = key.sign_sct(1_767_225_600_123, &signed, 0x01_0203_0405);
            let good = String::from_utf8(sct.unwrap().to_json()).unwrap();
            let verified = verifier.verify(good.as_bytes(), &submission, &mut buffer);
            let verified = verified.unwrap();
            assert_eq!(verified.index, 0x01_0203_0405);
            assert_eq!(verified.leaf, leaf_hash(&buffer));
            // Some JSON encoders escape slashes.
            let escaped = good.replace('/', "\\/");
            assert!(
                verifier
                    .verify(escaped.as_bytes(), &submission, &mut buffer)
                    .is_ok()
            );

            let stranger = LogKey::from_seed(&[8; 32]).unwrap();
            let stranger = stranger.sign_sct(1, &signed, 1).unwrap().to_json();
            let stranger = String::from_utf8(stranger).unwrap();
            for (json, check) in [
                ("<html>".to_owned(), checks::SCT_WELLFORMED),
                (good[..good.len() - 1].to_owned(), checks::SCT_WELLFORMED),
                (
                    good.replace("_version\":0", "_version\":1"),
                    checks::SCT_WELLFORMED,
                ),
                (
                    good.replace("AAAFAQIDBAU=", "AAAFAQIDBAV="),
                    checks::SCT_WELLFORMED,
                ),
                (stranger, checks::SCT_LOG_ID),
                (good.replace("AAAFAQIDBAU=", ""), checks::SCT_INDEX),
                (
                    good.replace("AAAFAQIDBAU=", "AAAEAQIDBA=="),
                    checks::SCT_INDEX,
                ),
                (
                    good.replace("AAAFAQIDBAU=", "AAAFAQIDBAY="),
                    checks::SCT_SIGNATURE,
                ),
                (good.replace("0123,", "0124,"), checks::SCT_SIGNATURE),
                (good.replace("\"BAM", "\"BAE"), checks::SCT_SIGNATURE),
            ] {
                let wrong = verifier.verify(json.as_bytes(), &submission, &mut buffer);
                assert_eq!(wrong.unwrap_err().check(), check, "{json}");
            }
            let wrong = verifier.verify(good.as_bytes(), &other, &mut buffer);
            let (index, timestamp) = (verified.index, verified.timestamp);
            assert!(
                matches!(wrong, Err(WrongSct::Signature { index: i, timestamp: t }) if (i, t) == (index, timestamp))
            );
        }
    }

    #[test]
    fn timestamps_that_make_sense() {
        let sane = |timestamp, repeated| {
            timestamp_sane(timestamp, 10_000, 11_000, repeated, Duration::from_secs(2))
        };
        for (timestamp, repeated) in [(8_000, false), (13_000, false), (10_500, false), (0, true)] {
            assert_eq!(sane(timestamp, repeated), Ok(()));
        }
        let before = TimestampError::BeforeSubmission(2_001);
        assert_eq!(sane(7_999, false), Err(before));
        for repeated in [false, true] {
            assert_eq!(sane(13_001, repeated), Err(TimestampError::Future(2_001)));
        }
    }
}
