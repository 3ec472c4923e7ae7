use std::sync::Arc;

use lucarne_ct::{
    Chain, ChainLimits, CheckpointVerifier, EntryKind, LogKey, Policy, Require, Roots, Sct,
    SignedEntry, Validator,
};
use lucarne_mint::now_ms;
use lucarne_testkit::LogUnderTest;
use lucarne_tlog::Hash;

/// Signs false statements with the log's own key, so that no signature reveals them.
pub(crate) struct Forger {
    key: LogKey,
    origin: String,
    validator: Validator,
    verifier: CheckpointVerifier,
}

impl Forger {
    /// Uses the key in the log's directory.
    pub(crate) fn of(log: &LogUnderTest, roots: &str) -> Self {
        let seed = std::fs::read(log.path().join("seed.bin")).unwrap();
        let (roots, _) = Roots::from_pem(roots.as_bytes());
        let policy = Policy {
            require: Require::Any,
            ..Policy::default()
        };
        Forger {
            key: LogKey::from_seed(&seed).unwrap(),
            verifier: CheckpointVerifier::new(&log.origin(), log.public_key()).unwrap(),
            origin: log.origin(),
            validator: Validator::new(Arc::new(roots), policy),
        }
    }

    /// Signs an SCT for this submission with any timestamp and index.
    pub(crate) fn sct(&self, path: &str, body: &[u8], timestamp: u64, index: u64) -> Sct {
        let signed = self.signed(path, body);
        self.key.sign_sct(timestamp, &signed, index).unwrap()
    }

    /// Returns the entry that the log signs for a submission.
    fn signed(&self, path: &str, body: &[u8]) -> SignedEntry {
        let kind = match path {
            "ct/v1/add-pre-chain" => EntryKind::Precert,
            _ => EntryKind::X509,
        };
        let chain = Chain::decode_json(body, &ChainLimits::default()).unwrap();
        let examined = self.validator.examine(&chain, kind, now_ms()).unwrap();
        examined.signed().unwrap()
    }

    /// Creates a valid submission that no other client knows.
    pub(crate) fn submission(&self) -> String {
        crate::common::submission(&crate::common::pki().p256)
    }

    /// Signs an SCT for an arbitrary certificate.
    pub(crate) fn any_sct(&self) -> Sct {
        let certificate = bytes::Bytes::from_static(b"anything");
        let signed = SignedEntry::X509 { certificate };
        self.key.sign_sct(now_ms(), &signed, 7).unwrap()
    }

    /// Returns the timestamp of a checkpoint.
    pub(crate) fn time_of(&self, note: &[u8]) -> u64 {
        self.verifier.verify(note).unwrap().1
    }

    /// Signs a checkpoint of the log with another timestamp.
    pub(crate) fn checkpoint_at(&self, note: &[u8], time: impl Fn(u64) -> u64) -> String {
        let (told, truth) = self.verifier.verify(note).unwrap();
        let signed = self
            .key
            .sign_checkpoint(&self.origin, told.size, &told.root, time(truth));
        signed.unwrap()
    }

    /// Signs a checkpoint of the log with another origin.
    pub(crate) fn checkpoint_of_another(&self, note: &[u8]) -> String {
        let (told, time) = self.verifier.verify(note).unwrap();
        let signed = self
            .key
            .sign_checkpoint("other.example/log", told.size, &told.root, time);
        signed.unwrap()
    }

    /// Signs a checkpoint of the log with another root.
    pub(crate) fn checkpoint(&self, note: &[u8], root: &Hash) -> String {
        let (told, time) = self.verifier.verify(note).unwrap();
        let signed = self
            .key
            .sign_checkpoint(&self.origin, told.size, root, time);
        signed.unwrap()
    }
}
