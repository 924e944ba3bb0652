var indexSectionsWithContent =
{
  0: "abcs",
  1: "abcs"
};

var indexSectionNames =
{
  0: "all",
  1: "pages"
};

var indexSectionLabels =
{
  0: "All",
  1: "Pages"
};

