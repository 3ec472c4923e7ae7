use std::{collections::BTreeMap, env};

use anyhow::{Context, Result};

/// The values of `${name}` in a log's file.
pub(crate) struct Variables {
    file: String,
    values: BTreeMap<String, String>,
}

impl Variables {
    pub(crate) fn new(file: &str) -> Self {
        Variables {
            file: file.to_owned(),
            values: BTreeMap::new(),
        }
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.values.insert(name.to_owned(), value.to_owned());
    }

    /// Replaces `${name}` and `${name:-default}` with values. Names without a value here are looked
    /// up in the environment. `$${` stands for `${`.
    pub(crate) fn expand(&self, text: &str) -> Result<String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                out.push_str(&rest[..at - 1]);
                out.push_str("${");
                rest = &rest[at + 2..];
                continue;
            }
            out.push_str(&rest[..at]);
            let end = rest[at..]
                .find('}')
                .with_context(|| format!("{}: `${{` without its `}}` in {text:?}", self.file))?;
            out.push_str(&self.value(&rest[at + 2..at + end])?);
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    fn value(&self, expression: &str) -> Result<String> {
        let (name, default) = match expression.split_once(":-") {
            Some((name, default)) => (name, Some(default.to_owned())),
            None => (expression, None),
        };
        let own = self.values.get(name).cloned();
        own.or_else(|| env::var(name).ok())
            .or(default)
            .with_context(|| {
                let known: Vec<&str> = self.values.keys().map(String::as_str).collect();
                let known = known.join(", ");
                format!(
                    "{}: ${{{name}}} is neither one of {known} nor in the environment",
                    self.file
                )
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_defaults_and_escapes() {
        let mut variables = Variables::new("test");
        variables.set("port", "80");
        let expand = |text| variables.expand(text);
        assert_eq!(expand("a:${port}/${port}").unwrap(), "a:80/80");
        assert_eq!(expand("${NOT_SET_ANYWHERE:-x y}").unwrap(), "x y");
        assert_eq!(expand("$${port} $").unwrap(), "${port} $");
        let error = expand("${NOT_SET_ANYWHERE}").unwrap_err().to_string();
        assert!(error.contains("NOT_SET_ANYWHERE"), "{error}");
        assert!(expand("${port").is_err());
    }
}
