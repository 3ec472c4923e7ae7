//! The record of an origin: the latest cosigned checkpoint, as a signed note in the lock.

use lucarne_storage::LogId;
use lucarne_tlog::{Checkpoint, Cosigner, NoteSignature, SignedNote};

/// The latest cosigned checkpoint of a log.
pub(crate) struct Record {
    pub(crate) note: SignedNote,
    pub(crate) checkpoint: Checkpoint,
    /// Latest time of a cosignature, in seconds since 1970. 0 if all keys of the witness are new.
    pub(crate) time: u64,
}

/// The checkpoints of a log that the lock has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// The latest checkpoint that a witness has cosigned.
    Cosigned,
    /// The pending checkpoint of a mirror: it has signatures of the log alone, and no time.
    Pending,
    /// The latest checkpoint that a mirror has cosigned.
    Mirror,
}

impl Slot {
    /// Returns the part of the key in the lock that differs between the slots.
    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Cosigned => "witness log\n",
            Self::Pending => "mirror pending\n",
            Self::Mirror => "mirror log\n",
        }
    }
}

/// The value of a slot.
pub(crate) struct Recorded {
    /// `None` if there is no checkpoint yet.
    pub(crate) record: Option<Record>,
    pub(crate) slot: Slot,
    pub(crate) key: LogId,
    /// The value in the lock, which a new value replaces.
    pub(crate) stored: Option<Vec<u8>>,
}

impl Record {
    /// Parses the note that the lock has for an origin.
    ///
    /// # Errors
    /// The reason why the note is not a record of this origin, as text.
    pub(crate) fn parse(
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
    pub(crate) fn has(&self, text: &str, lines: &[NoteSignature]) -> bool {
        let recorded = &self.note.signatures;
        self.note.text == text && lines.iter().all(|line| recorded.contains(line))
    }

    /// Returns a cosignature of each cosigner; `None` if a cosigner has none.
    pub(crate) fn cosignatures(&self, cosigners: &[Cosigner]) -> Option<Vec<NoteSignature>> {
        let line = |cosigner: &Cosigner| {
            let key = cosigner.verifier();
            let mut lines = self.note.signatures.iter();
            let by = |line: &&NoteSignature| line.name == key.name() && line.key_id == key.id();
            lines.find(by).cloned()
        };
        cosigners.iter().map(line).collect()
    }
}
