//! Tables of keys: the keys of a map, and the documentation of each.

use crate::form::Shape;
use crate::key::AnyKey;

/// The keys of a map, or a group of them.
#[derive(Clone, Copy)]
pub struct Table {
    keys: &'static [&'static dyn AnyKey],
    groups: &'static [&'static Table],
    follows: bool,
}

impl Table {
    /// Creates a table of these keys.
    pub const fn of(keys: &'static [&'static dyn AnyKey]) -> Self {
        Table {
            keys,
            groups: &[],
            follows: false,
        }
    }

    /// Creates the table of a map whose keys are in several groups.
    pub const fn join(groups: &'static [&'static Table]) -> Self {
        Table {
            keys: &[],
            groups,
            follows: false,
        }
    }

    /// Documents these keys in the same table as the key of their map, after this key.
    pub const fn following(mut self) -> Self {
        self.follows = true;
        self
    }

    /// Returns all keys in the order of the documentation.
    pub fn keys(&self) -> Vec<&'static dyn AnyKey> {
        let below = self.groups.iter().flat_map(|group| group.keys());
        self.keys.iter().copied().chain(below).collect()
    }

    /// Returns the names of all keys.
    pub fn names(&self) -> Vec<&'static str> {
        self.keys().iter().map(|key| key.about().name).collect()
    }

    /// Returns whether the table has a key of this name.
    pub fn has(&self, name: &str) -> bool {
        self.names().contains(&name)
    }

    /// Formats the keys as a table of Markdown. `beside` is the heading of the column beside the
    /// name, if there is one.
    pub fn to_markdown(&self, beside: Option<&str>) -> String {
        let mut text = match beside {
            None => "| key | default | meaning |\n|---|---|---|\n".to_owned(),
            Some("") => "| key | | default | meaning |\n|---|---|---|---|\n".to_owned(),
            Some(heading) => {
                format!("| key | {heading} | default | meaning |\n|---|---|---|---|\n")
            }
        };
        self.add_rows(beside.is_some(), &mut text);
        text
    }

    fn add_rows(&self, beside: bool, text: &mut String) {
        let keys = self.keys();
        for (index, key) in keys.iter().enumerate() {
            let about = key.about();
            let mut cells = vec![format!("`{}`", about.name)];
            if beside {
                cells.push(about.beside.to_owned());
            }
            cells.extend([about.default(), about.meaning.to_owned()]);
            text.push('|');
            for cell in cells {
                text.push_str(&if cell.is_empty() {
                    " |".to_owned()
                } else {
                    format!(" {cell} |")
                });
            }
            text.push('\n');
            // Keys whose maps have the same table stand together, before the rows of this table.
            let table = following(key.shape());
            let next = keys.get(index + 1).and_then(|key| following(key.shape()));
            if let Some(table) = table
                && !next.is_some_and(|next| std::ptr::eq(table, next))
            {
                table.add_rows(beside, text);
            }
        }
    }
}

/// Returns the table of a map whose keys follow the key of the map.
fn following(shape: Shape) -> Option<&'static Table> {
    shape.table().filter(|table| table.follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::Boolean;
    use crate::key::Key;

    static FAST: Key<Boolean> = Key::new("fast", Boolean, "false", "Fast.").beside("`--fast`");
    static RATE: Key<Shape> = Key::new("rate", Shape::Text, "", "Of both.");
    static INNER: Table = Table::of(&[&RATE]).following();
    static ONE: Key<Shape> = Key::new("one", Shape::Map(&INNER), "none", "One.");
    static TWO: Key<Shape> = Key::new("two", Shape::List(&Shape::Map(&INNER)), "none", "Two.");
    static LAST: Key<Shape> = Key::new("last", Shape::Text, "none", "Last.");
    static FIRST_GROUP: Table = Table::of(&[&FAST, &ONE, &TWO, &LAST]);
    static ALL: Table = Table::join(&[&FIRST_GROUP, &INNER]);

    #[test]
    fn keys_of_an_inner_map_follow_its_last_key() {
        assert_eq!(
            FIRST_GROUP.to_markdown(Some("flag")),
            "| key | flag | default | meaning |\n|---|---|---|---|\n\
             | `fast` | `--fast` | false | Fast. |\n\
             | `one` | | none | One. |\n\
             | `two` | | none | Two. |\n\
             | `rate` | | | Of both. |\n\
             | `last` | | none | Last. |\n"
        );
        assert_eq!(ALL.names(), ["fast", "one", "two", "last", "rate"]);
        assert!(ALL.has("rate") && !FIRST_GROUP.has("rate"));
    }
}
