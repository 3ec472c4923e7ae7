use std::{
    fs,
    path::{Path, PathBuf},
    sync::Once,
};

use anyhow::{Context, Result, ensure};
use lucarne_mint::{Chain, pem};

/// Returns the corpus of real certificates if this machine has it: `$LUCARNE_CORPUS`, or
/// `../shared/corpus` next to the workspace. Without a corpus, this function prints one line per
/// process, and tests pass.
pub fn corpus() -> Option<Corpus> {
    static SAID: Once = Once::new();
    let root = std::env::var_os("LUCARNE_CORPUS").map_or_else(beside_workspace, PathBuf::from);
    if root.join("index.tsv").is_file() {
        return Some(Corpus { root });
    }
    SAID.call_once(|| {
        let root = root.display();
        eprintln!("skipped: no corpus at {root} (set LUCARNE_CORPUS)");
    });
    None
}

fn beside_workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus")
}

/// Public certificates and chains with their expected verdicts.
#[derive(Clone, Debug)]
pub struct Corpus {
    root: PathBuf,
}

/// A line of `index.tsv`.
#[derive(Clone, Debug)]
pub struct Case {
    /// PEM file, relative to the corpus.
    pub file: String,
    /// `add-chain` or `add-pre-chain`.
    pub endpoint: String,
    /// The file under `roots/` (without `.pem`) with the only roots of the log.
    pub roots: String,
    /// Whether a log with no rules beyond RFC 6962 accepts the chain.
    pub accept: bool,
    /// Whether the leaf has the serverAuth usage (or no usages): otherwise a log that requires
    /// serverAuth may refuse the chain.
    pub server_auth: bool,
    /// Reason for the verdict.
    pub why: String,
}

impl Corpus {
    /// Returns the directory of the corpus.
    pub fn path(&self) -> &Path {
        &self.root
    }

    /// Returns all cases.
    ///
    /// # Errors
    /// If the index is malformed.
    pub fn cases(&self) -> Result<Vec<Case>> {
        let text = self.text("index.tsv")?;
        text.lines().skip(1).map(case).collect()
    }

    /// Returns a set of roots as PEM.
    ///
    /// # Errors
    /// If the file does not exist.
    pub fn roots_pem(&self, name: &str) -> Result<String> {
        self.text(&format!("roots/{name}.pem"))
    }

    /// Returns the chain of a case in submission order.
    ///
    /// # Errors
    /// If the file does not exist or is not PEM.
    pub fn chain(&self, case: &Case) -> Result<Chain> {
        let blocks = pem::decode(&self.text(&case.file)?).context(case.file.clone())?;
        Ok(Chain::new(blocks.into_iter().map(|(_, der)| der).collect()))
    }

    fn text(&self, file: &str) -> Result<String> {
        let path = self.root.join(file);
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

fn case(line: &str) -> Result<Case> {
    let columns: Vec<&str> = line.split('\t').collect();
    ensure!(
        columns.len() >= 8,
        "index.tsv: expected at least 8 columns, found {}: {line}",
        columns.len()
    );
    Ok(Case {
        file: columns[0].to_owned(),
        endpoint: columns[1].to_owned(),
        roots: columns[2].to_owned(),
        accept: columns[3] == "accept",
        server_auth: columns[4] == "yes",
        why: columns.get(8).unwrap_or(&"").to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_its_files() {
        let Some(corpus) = corpus() else { return };
        let cases = corpus.cases().unwrap();
        assert!(cases.iter().any(|case| case.accept) && cases.iter().any(|case| !case.accept));
        for case in cases {
            assert!(
                ["add-chain", "add-pre-chain"].contains(&&*case.endpoint),
                "{case:?}"
            );
            assert!(!corpus.chain(&case).unwrap().certificates().is_empty() || !case.accept);
            corpus.roots_pem(&case.roots).unwrap();
        }
    }
}
