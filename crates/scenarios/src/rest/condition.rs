//! Conditions of steps: `if` on a captured value.

use super::template::{Escaping, Scope, Template, TemplateError, Values};

/// Reasons why a text is not a condition.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ConditionError {
    #[error("`{0}` is not a condition: expected `name`, `name == text` or `name != text`")]
    Format(String),
    #[error("`{0}`: write the text without quotes")]
    Quoted(String),
    #[error(transparent)]
    Value(#[from] TemplateError),
}

/// A condition on a value.
#[derive(Debug)]
pub(super) struct Condition {
    value: Template,
    /// The text to compare with, and whether both must be equal. `None` if the value must exist.
    compared: Option<(bool, Template)>,
}

impl Condition {
    pub(super) fn compile(text: &str, scope: &mut Scope) -> Result<Self, ConditionError> {
        let wrong = || ConditionError::Format(text.to_owned());
        let signs = [("==", true), ("!=", false)].into_iter();
        let split = signs.filter_map(|(sign, equal)| {
            let (name, other) = text.split_once(sign)?;
            Some((name, equal, other))
        });
        let first = split.min_by_key(|(name, ..)| name.len());
        let (name, other) = match first {
            Some((name, equal, other)) => (name, Some((equal, other.trim()))),
            None => (text, None),
        };
        let quoted = |text: &str| text.starts_with(['"', '\'']) && text.ends_with(['"', '\'']);
        if other.is_some_and(|(_, other)| quoted(other)) {
            return Err(ConditionError::Quoted(text.to_owned()));
        }
        let name = name.trim();
        if name.is_empty() || name.contains(|c: char| c.is_whitespace() || "{}()|".contains(c)) {
            return Err(wrong());
        }
        let value = Template::compile(&format!("{{{{{name}}}}}"), Escaping::Plain, scope)?;
        let compared = other.map(|(equal, other)| {
            let other = Template::compile(other, Escaping::Plain, scope)?;
            Ok::<_, TemplateError>((equal, other))
        });
        Ok(Self {
            value,
            compared: compared.transpose()?,
        })
    }

    /// Returns whether the condition is true. A missing value differs from every text.
    pub(super) fn holds(&self, values: &mut Values) -> bool {
        let exists = self.value.is_ready(values);
        match &self.compared {
            None => exists,
            Some((equal, other)) => {
                let same = exists && self.value.text(values) == other.text(values);
                same == *equal
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_texts() {
        let mut scope = Scope::default();
        let next = scope.declare("next").unwrap();
        let texts = ["next", "next == 5", "next != 5", "next == {{next}}"];
        let conditions = texts.map(|text| Condition::compile(text, &mut scope).unwrap());
        let mut values = Values::new(scope.shared(1), 0);
        let mut holds = |value: Option<&str>| {
            if let Some(value) = value {
                values.set(next, value.to_owned());
            }
            conditions.each_ref().map(|it| it.holds(&mut values))
        };
        assert_eq!(holds(None), [false, false, true, false]);
        assert_eq!(holds(Some("5")), [true, true, false, true]);
        assert_eq!(holds(Some("x == y")), [true, false, true, true]);
    }

    #[test]
    fn wrong_conditions_are_explained() {
        let mut scope = Scope::default();
        scope.declare("next").unwrap();
        let mut said = |text| {
            Condition::compile(text, &mut scope)
                .unwrap_err()
                .to_string()
        };
        for text in ["", "== 5", "{{next}} == 5", "next < 5"] {
            assert_eq!(
                said(text),
                format!(
                    "`{text}` is not a condition: expected `name`, `name == text` or `name != text`"
                )
            );
        }
        assert_eq!(
            said("next == \"open\""),
            "`next == \"open\"`: write the text without quotes"
        );
        assert_eq!(
            said("nxt == 5"),
            "`{{nxt}}` is not a known value; did you mean `{{next}}`?"
        );
    }
}
