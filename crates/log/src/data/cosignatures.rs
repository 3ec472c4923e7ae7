//! A checkpoint with the cosignatures of witnesses: the committed note, and further lines.

use bytes::Bytes;
use lucarne_tlog::note::parse_signatures;
use lucarne_tlog::{NoteSignature, Policy, SignedNote};

/// A verified cosignature of the checkpoint.
pub(crate) struct Cosignature {
    /// Position of the witness in the policy.
    pub(crate) witness: usize,
    /// Seconds since 1970.
    pub(crate) time: u64,
    line: NoteSignature,
}

/// The reasons why a response has no usable cosignatures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// A line is invalid, or no line is from a key of the policy.
    Invalid,
    /// Two lines are from the same key.
    Duplicate,
}

/// Verifies the signature lines of a witness for the text of a checkpoint. Lines of keys that are
/// not in the policy are left out.
pub(crate) fn verified(
    policy: &Policy,
    text: &str,
    lines: &str,
) -> Result<Vec<Cosignature>, Unusable> {
    let lines = parse_signatures(lines).map_err(|_| Unusable::Invalid)?;
    let mut found: Vec<Cosignature> = Vec::new();
    for line in lines {
        let mut keys = policy.witnesses().iter().map(|witness| &witness.key);
        let Some(at) = keys.position(|key| (key.name(), key.id()) == (&line.name, line.key_id))
        else {
            continue;
        };
        if found.iter().any(|known| known.witness == at) {
            return Err(Unusable::Duplicate);
        }
        let note = SignedNote {
            text: text.to_owned(),
            signatures: vec![line.clone()],
        };
        match policy.witnesses()[at].key.verify(&note) {
            Ok(Some(time)) if time > 0 => found.push(Cosignature {
                witness: at,
                time,
                line,
            }),
            _ => return Err(Unusable::Invalid),
        }
    }
    if found.is_empty() {
        return Err(Unusable::Invalid);
    }
    Ok(found)
}

/// Returns whether the `published` note is the `committed` note, with nothing but valid
/// cosignatures of the policy after it.
pub(crate) fn is_cosigned(policy: Option<&Policy>, committed: &[u8], published: &[u8]) -> bool {
    let Some(lines) = published.strip_prefix(committed) else {
        return false;
    };
    let valid = || {
        let text = SignedNote::parse(committed).ok()?.text;
        let lines = std::str::from_utf8(lines).ok()?;
        let found = verified(policy?, &text, lines).ok()?;
        Some(found.len() == lines.lines().count())
    };
    lines.is_empty() || valid() == Some(true)
}

/// A committed checkpoint with the cosignatures so far, in the order of their arrival.
pub(crate) struct Cosigned {
    committed: Bytes,
    text: String,
    cosignatures: Vec<Cosignature>,
}

impl Cosigned {
    /// Begins without cosignatures; returns `None` if the bytes are not a signed note.
    pub(crate) fn begin(committed: Bytes) -> Option<Self> {
        Some(Cosigned {
            text: SignedNote::parse(&committed).ok()?.text,
            committed,
            cosignatures: Vec::new(),
        })
    }

    /// Returns the committed note.
    pub(crate) fn committed(&self) -> &Bytes {
        &self.committed
    }

    /// Returns the text of the note.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the cosignatures in the order of their arrival.
    pub(crate) fn cosignatures(&self) -> &[Cosignature] {
        &self.cosignatures
    }

    /// Adds verified cosignatures of this checkpoint. The first one of each witness stays.
    pub(crate) fn add(&mut self, cosignatures: Vec<Cosignature>) {
        for new in cosignatures {
            let is_known = |known: &Cosignature| known.witness == new.witness;
            if !self.cosignatures.iter().any(is_known) {
                self.cosignatures.push(new);
            }
        }
    }

    /// Returns whether the first `count` cosignatures meet the quorum of the policy.
    pub(crate) fn meets_quorum(&self, policy: &Policy, count: usize) -> bool {
        let name = |known: &Cosignature| &policy.witnesses()[known.witness].name;
        let first = || self.cosignatures.iter().take(count);
        policy.quorum_is_met(|it| first().any(|by| *name(by) == it.name))
    }

    /// Returns the note with all cosignatures. The bytes of the committed note are not encoded
    /// again.
    pub(crate) fn note(&self) -> Bytes {
        let lines = self.cosignatures.iter().map(|it| format!("{}\n", it.line));
        let lines: String = lines.collect();
        [&self.committed, lines.as_bytes()].concat().into()
    }
}

#[cfg(test)]
mod tests {
    use lucarne_ct::LogKey;
    use lucarne_tlog::{Cosigner, EMPTY_ROOT};

    use super::*;

    fn line(cosigner: &Cosigner, text: &str, time: u64) -> String {
        format!("{}\n", cosigner.cosign(text, time).unwrap())
    }

    #[test]
    fn only_valid_lines_of_the_policy_extend_a_note() {
        let key = LogKey::from_seed(&[7; 32]).unwrap();
        let sign = |at| key.sign_checkpoint("log.example/a", 0, &EMPTY_ROOT, at);
        let committed = sign(5000).unwrap();
        let text = SignedNote::parse(committed.as_bytes()).unwrap().text;
        let a = Cosigner::ed25519("a.example", &[1; 32]).unwrap();
        let b = Cosigner::ml_dsa_44("b.example", &[2; 32]).unwrap();
        let stranger = Cosigner::ed25519("c.example", &[3; 32]).unwrap();
        let policy = format!(
            "witness A {}\nwitness B {}\ngroup all all A B\nquorum all\n",
            a.verifier(),
            b.verifier(),
        );
        let policy = Policy::parse(policy.as_bytes()).unwrap();
        let of = |lines: &str| verified(&policy, &text, lines);
        let (by_a, by_b) = (line(&a, &text, 7), line(&b, &text, 8));
        let unknown = line(&stranger, &text, 9);

        let mut cosigned = Cosigned::begin(committed.clone().into()).unwrap();
        cosigned.add(of(&format!("{unknown}{by_b}")).unwrap());
        assert!(!cosigned.meets_quorum(&policy, 1));
        cosigned.add(of(&by_a).unwrap());
        cosigned.add(of(&line(&a, &text, 70)).unwrap());
        assert!(cosigned.meets_quorum(&policy, 2) && !cosigned.meets_quorum(&policy, 1));
        let note = cosigned.note();
        assert_eq!(note, format!("{committed}{by_b}{by_a}"));
        let is_cosigned = |note: &[u8]| is_cosigned(Some(&policy), committed.as_bytes(), note);
        assert!(is_cosigned(&note) && is_cosigned(committed.as_bytes()));
        assert!(!super::is_cosigned(None, committed.as_bytes(), &note));
        for wrong in [unknown.as_str(), "x\n", &by_b[..by_b.len() - 1]] {
            assert!(!is_cosigned(format!("{committed}{wrong}").as_bytes()));
        }
        assert!(!is_cosigned(sign(6000).unwrap().as_bytes()));

        let other = text.replace("log.example", "other.example");
        let failure = |lines: &str| of(lines).err();
        assert_eq!(failure(&format!("{by_a}{by_a}")), Some(Unusable::Duplicate));
        for invalid in ["", "not a line\n", &unknown, &line(&a, &other, 7)] {
            assert_eq!(failure(invalid), Some(Unusable::Invalid), "{invalid}");
        }
        // A valid line does not save an invalid one.
        let both = format!("{by_b}{}", line(&a, &other, 7));
        assert_eq!(failure(&both), Some(Unusable::Invalid));
    }
}
