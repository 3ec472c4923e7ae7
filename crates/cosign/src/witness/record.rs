//! The record of an origin: the latest cosigned checkpoint, as a signed note in the lock.

use lucarne_tlog::{Checkpoint, Cosigner, NoteSignature, SignedNote};

/// The latest cosigned checkpoint of a log.
pub(super) struct Record {
    pub(super) note: SignedNote,
    pub(super) checkpoint: Checkpoint,
    /// Latest time of a cosignature, in seconds since 1970. 0 if all keys of the witness are new.
    pub(super) time: u64,
}

impl Record {
    /// Parses the note that the lock has for an origin.
    ///
    /// # Errors
    /// The reason why the note is not a record of this origin, as text.
    pub(super) fn parse(
        stored: &[u8],
        origin: &str,
        cosigners: &[Cosigner],
    ) -> Result<Self, String> {
        let note = SignedNote::parse(stored).map_err(|error| error.to_string())?;
        let parsed = Checkpoint::parse_extended(&note.text);
        let (checkpoint, _) = parsed.map_err(|error| error.to_string())?;
        if checkpoint.origin != origin {
            return Err(format!("the origin is {:?}", checkpoint.origin));
        }
        let mut time = 0;
        for cosigner in cosigners {
            let verified = cosigner.verifier().verify(&note);
            time = time.max(verified.map_err(|error| error.to_string())?.unwrap_or(0));
        }
        Ok(Self {
            note,
            checkpoint,
            time,
        })
    }

    /// Returns whether the record has this text and these lines.
    pub(super) fn has(&self, text: &str, lines: &[NoteSignature]) -> bool {
        let recorded = &self.note.signatures;
        self.note.text == text && lines.iter().all(|line| recorded.contains(line))
    }

    /// Returns a cosignature of each cosigner; `None` if a cosigner has none.
    pub(super) fn cosignatures(&self, cosigners: &[Cosigner]) -> Option<Vec<NoteSignature>> {
        let line = |cosigner: &Cosigner| {
            let key = cosigner.verifier();
            let mut lines = self.note.signatures.iter();
            let by = |line: &&NoteSignature| line.name == key.name() && line.key_id == key.id();
            lines.find(by).cloned()
        };
        cosigners.iter().map(line).collect()
    }
}
