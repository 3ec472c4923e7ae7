//! Tags that distinguish series.

use crate::Summary;
use crate::summary::{Series, TagList};

/// Returns the tags that all tagged series of a run share, which rows omit.
pub(crate) fn common(summary: &Summary) -> TagList {
    let mut tagged = summary.series.iter().filter(|series| series.tags.len() > 1);
    let Some(first) = tagged.next() else {
        return TagList::new();
    };
    let others: Vec<&Series> = tagged.collect();
    if others.is_empty() {
        return TagList::new();
    }
    let everywhere =
        |tag: &&(String, String)| others.iter().all(|series| series.tags.contains(tag));
    first.tags.iter().filter(everywhere).cloned().collect()
}

/// Returns `tags` without `common`, or all `tags` if no tag would be left.
pub(crate) fn telling(tags: &TagList, common: &TagList) -> TagList {
    let left: TagList = tags
        .iter()
        .filter(|tag| !common.contains(tag))
        .cloned()
        .collect();
    if left.is_empty() { tags.clone() } else { left }
}

/// Formats tags as `{ op:add-chain, scenario:write }`.
pub(crate) fn braces(tags: &TagList) -> String {
    let pairs: Vec<_> = tags
        .iter()
        .map(|(name, value)| format!("{name}:{value}"))
        .collect();
    super::format::printable(&format!("{{ {} }}", pairs.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn what_all_share_is_not_repeated() {
        let mut summary = sample::summary();
        for series in summary
            .series
            .iter_mut()
            .filter(|series| series.tags.len() > 1)
        {
            series.tags.insert(0, ("log".into(), "a".into()));
        }
        let common = common(&summary);
        assert_eq!(common, sample::tags(&[("log", "a")]));
        let tags = &summary.series[2].tags;
        assert_eq!(
            braces(&telling(tags, &common)),
            "{ op:add-chain, scenario:write }"
        );
        let only = sample::tags(&[("log", "a")]);
        assert_eq!(telling(&only, &common), only);
    }

    #[test]
    fn one_series_keeps_its_tags() {
        let mut summary = sample::summary();
        summary.series.truncate(3);
        assert_eq!(common(&summary), TagList::new());
    }
}
