"""The app behind `coc debug`: needs Textual (the extra `debug`), so it is imported only there."""
